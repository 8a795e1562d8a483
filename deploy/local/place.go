package local

// Place is where and how a node runs. The zero value is a plain child on loopback.
type Place struct {
	HTTPAddr string // host:port; empty: on loopback, with a port by Config.HTTPPort
	PeerAddr string // host:port; empty: on loopback
	Data     string // data folder, apart from the folder of log and pid file; empty: the same folder

	// Command is a prefix of the node's command line. It must exec the node's command, as ip netns exec, nsenter and
	// taskset do, so that signals reach the node itself.
	Command []string
	Env     []string // further variables, as NAME=value
	Args    []string // further arguments of `belfry serve`, after Config.ExtraArgs
}

// place returns the place of the i-th node.
func (c Config) place(i int) Place {
	if i < len(c.Places) {
		return c.Places[i]
	}
	return Place{}
}
