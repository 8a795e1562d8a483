package node

import (
	"context"

	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/redisapi"
)

// listenRedis binds the port for Redis clients before the data is opened, as listen does. They wait until startRedis.
func (n *Node) listenRedis(context.Context) error {
	if n.cfg.RedisAddr == "" {
		return nil
	}
	l, err := n.bind("redis", n.cfg.RedisAddr)
	if err != nil {
		return err
	}
	n.redis = n.limited(l, n.callerPart())
	n.onStop(func() error { return ignoreClosed(l.Close()) })
	return nil
}

// startRedis serves Redis clients. Their commands are calls of the HTTP API.
func (n *Node) startRedis(context.Context) error {
	if n.redis == nil {
		return nil
	}
	server, err := redisapi.New(redisapi.Config{
		API: n.api, Scores: n.cfg.RedisScores, Registerer: n.registry, Logger: logs.Limited(n.log),
	})
	if err != nil {
		return err
	}
	n.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), callGrace)
		defer cancel()
		return ignoreClosed(server.Shutdown(ctx))
	})
	l := n.securedAPI(n.redis)
	go func() {
		if err := server.Serve(l); err != nil {
			n.failed <- err
		}
	}()
	n.log.Info("serving Redis clients", "redis", n.RedisAddr(), "scores", n.cfg.RedisScores)
	return nil
}

// RedisAddr returns the address at which Redis clients are served; empty: none are.
func (n *Node) RedisAddr() string {
	if n.redis == nil {
		return ""
	}
	return n.redis.Addr().String()
}

// checkScores returns an error if the scores of Redis clients have no unit.
func (c *Config) checkScores() error {
	if c.RedisAddr == "" {
		return nil
	}
	return redisapi.CheckUnit(string(c.RedisScores))
}
