// Package peers lists the services that a user would pick instead of Belfry. Each has a package of its own, with a
// driver that uses it as its users would best use it for delayed tasks: its own client library, its usual durable
// configuration, its fastest way to write, and what it promises written beside it.
//
// All run as children of the bench on loopback, with their data in the bench's folder and ports of their own, and
// nothing of them is left behind. `make bench-peers` installs them.
package peers

import (
	"github.com/belfryhq/belfry/bench/peers/asynq"
	"github.com/belfryhq/belfry/bench/peers/beanstalkd"
	"github.com/belfryhq/belfry/bench/peers/nats"
	"github.com/belfryhq/belfry/bench/peers/postgres"
	"github.com/belfryhq/belfry/bench/peers/rabbitmq"
	"github.com/belfryhq/belfry/bench/peers/redis"
	"github.com/belfryhq/belfry/bench/peers/redisserver"
	"github.com/belfryhq/belfry/bench/subject"
)

// All are the peers in each form that is worth comparing as a whole.
func All() []subject.Subject {
	return []subject.Subject{
		redis.SortedSet(redisserver.Always, redis.PollFast),
		redis.SortedSet(redisserver.EverySecond, redis.PollFast),
		asynq.Subject(),
		beanstalkd.Subject(),
		nats.OneNode(),
		nats.ThreeNodes(),
		rabbitmq.OneQueue(),
		postgres.Subject(),
	}
}

// ForLateness are further forms in which a peer is used, and which differ from those only in when tasks arrive.
func ForLateness() []subject.Subject {
	return []subject.Subject{
		redis.SortedSet(redisserver.EverySecond, redis.PollArticle),
		redis.Expiry(),
		rabbitmq.QueuePerSecond(),
	}
}
