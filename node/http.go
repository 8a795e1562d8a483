package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/httpapi"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/node/internal/port"
	"github.com/belfryhq/belfry/node/internal/profiles"
	"github.com/belfryhq/belfry/node/internal/room"
	"github.com/belfryhq/belfry/web"
)

const (
	callGrace    = 2 * time.Second // for calls under way, after the last new call
	headerPeriod = 10 * time.Second
)

func (n *Node) startProfiles(context.Context) error {
	if n.cfg.ProfileAddr == "" {
		return nil
	}
	l, err := n.bind("pprof", n.cfg.ProfileAddr)
	if err != nil {
		return err
	}
	handler := profiles.New()
	server := &http.Server{ReadHeaderTimeout: headerPeriod, Handler: n.atAddress(httpapi.Guarded(httpapi.GuardConfig{
		Handler: handler, Role: access.Operate, Access: n.callers, Origins: n.origins, Records: records{n},
		Logger: n.log,
	}))}
	n.onStop(func() error {
		err := server.Close() // first, because a slow reader of a trace holds the flight recorder
		handler.Close()
		return err
	})
	go n.serve(server, n.secured(l, true))
	return nil
}

// bind opens the port of a setting, unless other machines can reach it without credentials or without TLS.
func (n *Node) bind(setting, addr string) (net.Listener, error) {
	l, err := n.cfg.listen(addr)
	if err == nil {
		if err = n.cfg.checkBound(l.Addr()); err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return nil, &SettingError{setting, err}
	}
	return l, nil
}

// listen opens a TCP port.
func (c *Config) listen(addr string) (net.Listener, error) {
	if c.Network == nil {
		return net.Listen("tcp", addr)
	}
	l, packets, err := c.Network.Listen(addr)
	if err != nil {
		return nil, err
	}
	if err := packets.Close(); err != nil { // callers send none
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// listen binds the HTTP port before the data is opened. A node whose port is taken then never joins the cluster, and
// the other nodes learn the bound port.
func (n *Node) listen(context.Context) error {
	l, err := n.bind("http", n.cfg.HTTPAddr)
	if err != nil {
		return err
	}
	n.listener = n.limited(l, n.callerPart())
	n.onStop(func() error { return ignoreClosed(l.Close()) })
	if n.place, err = n.cfg.advertised(l.Addr()); err != nil {
		return err
	}
	own := []string{origin.HostOf(n.cfg.HTTPAddr), origin.HostOf(n.place.addr), origin.HostOf(n.cfg.ProfileAddr)}
	n.origins, err = origin.New(append(own, n.cfg.AllowHosts...), n.cfg.AllowOrigins)
	return err
}

// callerPart returns the number of connections that each port for callers may have.
func (n *Node) callerPart() int {
	ports := 1
	for _, addr := range []string{n.cfg.AMQP.Addr, n.cfg.RedisAddr} {
		if addr != "" {
			ports++
		}
	}
	return n.budget.calls / ports
}

// limited returns the listener of a port for callers with a bounded number of connections.
func (n *Node) limited(l net.Listener, all int) net.Listener {
	each := all / 2
	if n.cfg.BehindProxy {
		each = 0 // all callers come from the proxy
	}
	return port.Limit(l, all, each, logs.Limited(n.log))
}

// openCertificates reads the files of the API's port, and reads them again as long as the node runs.
func (n *Node) openCertificates(context.Context) error {
	if n.cfg.TLS.Cert == "" {
		return nil
	}
	var err error
	n.certificates, err = port.Open(port.Config{
		Files:  port.Files{Cert: n.cfg.TLS.Cert, Key: n.cfg.TLS.Key, ClientCA: n.cfg.TLS.ClientCA},
		Host:   origin.HostOf(n.place.addr),
		Reload: n.again.Reader(), Logger: n.log, Registerer: n.registry,
	})
	if err != nil {
		return &SettingError{"http-cert", err}
	}
	n.background(n.certificates.Run)
	return nil
}

// secured returns the listener of the connections of a port for callers. plain lets those on this machine speak plain
// HTTP.
func (n *Node) secured(l net.Listener, plain bool) net.Listener {
	if n.certificates == nil {
		return l
	}
	return port.Secure(l, n.certificates.TLS(), plain, headerPeriod)
}

// securedAPI is secured for the port of the API.
func (n *Node) securedAPI(l net.Listener) net.Listener { return n.secured(l, n.cfg.TLS.PlainLoopback) }

// atAddress returns a handler whose calls have the address of their caller also behind a proxy.
func (n *Node) atAddress(api http.Handler) http.Handler {
	if !n.cfg.BehindProxy {
		return api
	}
	return port.Forwarded(api)
}

// newGate returns the gate that delays the start while the disk is full. The gate answers callers meanwhile.
func (n *Node) newGate() *room.Gate {
	return room.New(room.Config{
		Dir: n.cfg.DataDir, Reserve: n.cfg.MinFreeDisk, Host: n.host, Listener: n.listener, Secured: n.securedAPI,
		Logger: n.log,
		Handler: func(reason func() string, metrics prometheus.Gatherer) http.Handler {
			return n.atAddress(httpapi.Waiting(httpapi.WaitingConfig{
				Node: unopened{reason, n.cfg.DataDir}, Origins: n.origins, Access: n.callers, Records: records{n},
				Metrics: prometheus.Gatherers{n.registry, metrics}, Logger: n.log,
			}))
		},
	})
}

// unopened is a node that waits until its disk has room to open the data.
type unopened struct {
	reason  func() string
	dataDir string
}

func (u unopened) Barred() string { return u.reason() }

func (u unopened) Doctor(context.Context) []doctor.Finding {
	return []doctor.Finding{doctor.Wait(u.reason(), u.dataDir)}
}

func (n *Node) startHTTP(context.Context) error {
	cfg := httpapi.Config{
		Backend: newBackend(n.cluster), Access: n.callers, Limits: n.cluster.Quotas(),
		Audit: auditor{n.audit.Load(), n.cluster}, Events: n.cluster.Events(),
		Receivers: n.receivers, Origins: n.origins, Now: n.cluster.Now,
		Gatherer: prometheus.Gatherers{n.registry, n.clusterRegistry}, Registerer: n.registry, Logger: logs.Limited(n.log),
		Tracer: n.tracer,
		UI:     web.Handler(),
	}
	if n.dev != nil {
		cfg.DevClock = n.dev
	}
	if n.cfg.AccessLog {
		cfg.AccessLog = n.log
	}
	api, err := httpapi.New(cfg)
	if err != nil {
		return err
	}
	server := api.HTTPServer()
	n.api = n.unlessBarred(server.Handler)
	server.Handler = n.atAddress(n.api)
	n.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), callGrace)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			n.log.Info("calls are cut off", "err", err)
			return server.Close()
		}
		return nil
	})
	go n.serve(server, n.securedAPI(n.listener))
	return nil
}

// unlessBarred answers every call with the reason while the node takes no part in its cluster because its data may be
// old.
func (n *Node) unlessBarred(api http.Handler) http.Handler {
	barred := httpapi.Waiting(httpapi.WaitingConfig{
		Node: n.cluster, Origins: n.origins, Access: n.callers, Records: records{n}, Metrics: n.registry, Logger: n.log,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.cluster.Barred() != "" {
			barred.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

func (n *Node) serve(server *http.Server, l net.Listener) {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		n.failed <- err
	}
}

// ignoreClosed drops the error of closing a listener that its server has already closed.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
