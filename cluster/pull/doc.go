// Package pull brings due tasks to the consumers that wait at this node, from the leaders of all shards.
//
// # A pool
//
// The consumers of this node that ask for tasks of one queue with one lease are a pool. What the pool needs is spread
// over the shards as standing demands, one for each shard, at whichever node leads it (see shard/pull for that end).
// Between two nodes there is one stream for each direction of asking. A demand is raised as tasks arrive and consumers
// come, and only once it is half used up, so that one message tops up much; a due task costs one message from the node
// that leads its shard. Shards led here are asked in the same way, over a pipe in memory.
//
// Whoever waits longest is served first, at once, with all that has arrived by then, up to its max and a bound in
// bytes. Nobody waits to fill a max: what arrives while consumers are busy makes the next batch.
//
// # What arrives and is not needed
//
// A task that is due in one shard cannot be known at another: the demands add up to more than the pool needs, by about
// as much again. What is asked for is taken back as soon as nobody has waited for a moment, so that tasks go to other
// nodes' consumers while this one's are at work. What has come by then is kept for some milliseconds, or as long as
// consumers of this pool usually take to come back, if that is soon, and is then released, uncounted: to release and to
// grant anew costs two entries, and where entries are slow, they would become slower still.
//
// Where shards have said that more is waiting, exactly what is needed is asked of them, of as few as can give it and in
// turn, and the others keep a small demand, so that neither a backlog somewhere multiplies the surplus nor is a shard
// without one passed over.
//
// # Consumers that do not wait
//
// A consumer that only looks has the pool ask all shards whether anything is there; the question rides with the
// demands, and the answer comes behind the tasks. It leaves with nothing once every shard has answered, and otherwise
// when its context ends: a shard whose leader is not known, or does not answer, may have something.
//
// # When something breaks
//
// A demand ends when its shard's leader does; the next leader's name comes as news (router.Leaders), and the demand
// goes there. Without news it is tried again, ever more seldom. Tasks that the leading node could not send are released
// there, those that have come and nobody takes are released here. A leader that begins asks the nodes which of the last
// leases came to them, gives the others back, and what comes of them yet is not taken (Arrived). What is lost while its
// leader lives comes back when its lease ends.
//
// # Why not otherwise
//
// Not each consumer's call to each shard: a hundred consumers would cost twelve hundred calls, and as many withdrawals
// for each round. Not one shard after the other: a due task would wait for the round to reach it. Not a look from time
// to time: an idle consumer costs nothing here.
package pull
