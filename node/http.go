package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/doctor"
	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/httpapi"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/node/internal/profiles"
	"github.com/belfryhq/belfry/node/internal/room"
)

const (
	callGrace    = 2 * time.Second // for calls under way, after the last new call
	headerPeriod = 10 * time.Second
)

func (n *Node) startProfiles(context.Context) error {
	if n.cfg.ProfileAddr == "" {
		return nil
	}
	l, err := net.Listen("tcp", n.cfg.ProfileAddr)
	if err != nil {
		return &SettingError{"pprof", err}
	}
	handler := profiles.New()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerPeriod}
	n.onStop(func() error {
		handler.Close()
		return server.Close()
	})
	go n.serve(server, l)
	return nil
}

// listen binds the HTTP port before the data is opened. A node whose port is taken then never joins the cluster, and
// the other nodes learn the bound port.
func (n *Node) listen(context.Context) error {
	l, err := net.Listen("tcp", n.cfg.HTTPAddr)
	if err != nil {
		return &SettingError{"http", err}
	}
	n.listener = l
	n.onStop(func() error { return ignoreClosed(l.Close()) })
	n.warnOpen()
	address, err := advertised(n.cfg.AdvertiseHTTP, l.Addr())
	if err != nil {
		return err
	}
	own := []string{origin.HostOf(n.cfg.HTTPAddr), origin.HostOf(address)}
	n.origins, err = origin.New(append(own, n.cfg.AllowHosts...), n.cfg.AllowOrigins)
	return err
}

// warnOpen logs a warning if other machines can reach the API.
func (n *Node) warnOpen() {
	addr, ok := n.listener.Addr().(*net.TCPAddr)
	if ok && !addr.IP.IsLoopback() {
		n.log.Warn("the API is open to the network without authentication: any machine that reaches this address can read "+
			"and change every task; bind it to loopback, or let only trusted machines through to it", "http", addr.String())
	}
}

// newGate returns the gate that delays the start while the disk is full. The gate answers callers meanwhile.
func (n *Node) newGate() *room.Gate {
	return room.New(room.Config{
		Dir: n.cfg.DataDir, Reserve: n.cfg.MinFreeDisk, Space: n.space, Listener: n.listener, Logger: n.log,
		Handler: func(reason func() string, metrics prometheus.Gatherer) http.Handler {
			return httpapi.Waiting(httpapi.WaitingConfig{
				Reason: reason, Origins: n.origins, Metrics: prometheus.Gatherers{n.registry, metrics}, Logger: n.log,
				Doctor: func(context.Context) []httpapi.Finding { return findings([]doctor.Finding{doctor.Wait(reason())}) },
			})
		},
	})
}

func (n *Node) startHTTP(context.Context) error {
	api, err := httpapi.New(httpapi.Config{
		Backend: backend{n.cluster}, CheckURL: n.receivers.CheckURL, Origins: n.origins, Now: n.cluster.Now,
		Gatherer: prometheus.Gatherers{n.registry, n.clusterRegistry}, Registerer: n.registry, Logger: logs.Limited(n.log),
	})
	if err != nil {
		return err
	}
	server := api.HTTPServer()
	server.Handler = n.unlessBarred(server.Handler)
	n.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), callGrace)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			n.log.Info("calls are cut off", "err", err)
			return server.Close()
		}
		return nil
	})
	go n.serve(server, n.listener)
	return nil
}

// unlessBarred answers every call with the reason while the node takes no part in its cluster because its data may be
// old.
func (n *Node) unlessBarred(api http.Handler) http.Handler {
	barred := httpapi.Waiting(httpapi.WaitingConfig{
		Reason: n.cluster.Barred, Doctor: backend{n.cluster}.Doctor, Origins: n.origins, Metrics: n.registry, Logger: n.log,
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
