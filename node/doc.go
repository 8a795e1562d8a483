// Package node builds one running node out of the cluster, the HTTP API and the delivery, and stops it in order.
//
//	part            started by Start, stopped by Close in the reverse order
//	gc              bounds the garbage of the process
//	memory limit    found, and shared out among the parts
//	metrics         one registry for the process, one for the cluster
//	callers         found by their credentials: the node's own files at once, the keys of the cluster once it is open
//	HTTP listener   bound before the data is opened: the other nodes learn its port
//	AMQP listener   if Config.AMQP names an address
//	certificates    of the HTTP ports, if Config.TLS names any
//	profiles        if Config.ProfileAddr is set
//	Redis listener  if Config.RedisAddr is set
//	receivers       webhooks and message brokers
//	cluster keys    if Config.ClusterKeyFile is set
//	room            waits while the disk is too full, and answers callers with the reason
//	cluster         opens the data and joins the other nodes
//	audit log       its records have the id of the node
//	PID file
//	HTTP API        serves callers
//	AMQP clients    by the HTTP API, and by their broker
//	Redis clients   by the HTTP API
//
// A test can run a node in its own process:
//
//	cfg := node.DefaultConfig()
//	cfg.DataDir, cfg.HTTPAddr, cfg.PeerAddr = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
//	n, err := node.Start(ctx, cfg)
//
// The limit of Go's memory and the target of its garbage collector are settings of the whole process. They last as
// long as the node. Signals, flags and environment variables are the command's part.
package node
