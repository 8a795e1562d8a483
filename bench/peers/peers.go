// Package peers lists the services that Belfry is compared with. Each service has a package of its own, whose driver
// uses the service as its users best do for delayed tasks: with its own client library, its usual durable configuration
// and its fastest way to write. The driver also states the durability of an acknowledgement.
//
// All servers run as children of the bench on loopback, with their data in the bench's folder and ports of their own.
// Nothing is left behind after a run. `make bench-peers` installs the servers.
package peers

import (
	"github.com/belfryhq/belfry/bench/peers/beanstalkd"
	"github.com/belfryhq/belfry/bench/peers/etcd"
	"github.com/belfryhq/belfry/bench/peers/nats"
	"github.com/belfryhq/belfry/bench/peers/postgres"
	"github.com/belfryhq/belfry/bench/peers/rabbitmq"
	"github.com/belfryhq/belfry/bench/peers/redis"
	"github.com/belfryhq/belfry/bench/subject"
)

// All returns the peers in each form that is compared with all workloads.
func All() []subject.Subject {
	return []subject.Subject{
		redis.SortedSet(redis.Always, redis.PollFast),
		redis.SortedSet(redis.EverySecond, redis.PollFast),
		redis.Asynq(),
		beanstalkd.Subject(),
		nats.OneNode(),
		nats.ThreeNodes(),
		nats.ThreeNodesSynced(),
		rabbitmq.OneQueue(),
		rabbitmq.ThreeNodes(),
		postgres.OneServer(),
		postgres.WithStandbys(),
		etcd.Subject(),
	}
}

// ForLateness returns further forms of the peers. They differ from those of All only in the lateness of tasks.
func ForLateness() []subject.Subject {
	return []subject.Subject{
		redis.SortedSet(redis.EverySecond, redis.PollArticle),
		redis.Expiry(),
		rabbitmq.QueuePerSecond(),
	}
}

// OfDelayedMessages returns RabbitMQ with the header x-delay, by its plugin and by nodes of a program of Belfry.
func OfDelayedMessages(binary string) []subject.Subject {
	return []subject.Subject{rabbitmq.Plugin(), rabbitmq.Intake(binary)}
}
