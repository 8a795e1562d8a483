// Package bench is the parent folder of the packages that compare Belfry with other services for delayed tasks. It has
// no code of its own.
//
//	subject       the interfaces of a service under test, and a server that runs as a child process
//	belfry        Belfry as a subject: three processes with the default configuration
//	peers/...     the other services, one package each
//	workload      the workloads, each a function of a subject and of sizes
//	report        medians, spread, ratios and goals, as Markdown, JSON and pictures
//	cmd/bench     the command
//
// The folder is a Go module of its own:
//   - The drivers of the peers are no dependencies of Belfry.
//   - Commands run in the module with `go run -C bench ./cmd/bench`.
//   - The bench builds the measured Belfry from the parent folder, with that module's own dependencies.
//
// The rules of the comparison:
//   - All services run in one run on one machine, in turns. A single figure means little on another machine; the ratio
//     of two figures means much.
//   - Every service runs with the defaults or the usual durable configuration of its users.
//   - Repeating schedules are measured with Belfry alone: the drivers of the other services have no equal.
//   - The tables show the durability of an acknowledgement beside every figure, because a service that stores nothing
//     is always fast.
//   - The first tables have only the services with Belfry's promise: three copies, and a majority has synced each write
//     before the acknowledgement. These are NATS JetStream with three replicas and sync_interval "always", a RabbitMQ
//     quorum queue on three nodes, PostgreSQL with commits that wait for one of two standbys, and etcd on three
//     members, which fires nothing and shows the cost of a plain write. Beside each rate stands its cost: the processor
//     time of all processes of the service for a task. Goals against peers are ratios of figures of the same run.
//
// The packages of the wheel, the store, the codec and the proposer measure their own cost with testing.B.
package bench
