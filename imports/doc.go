// Package imports brings the waiting tasks of other schedulers into a cluster.
//
//	Source, Mover, Record   the tasks of another scheduler
//	Run, Preview, Check     an import, a dry run, and a comparison without an import
//	NDJSON, CSV, Crontab    sources that are files
//	imports/redis           sources in a Redis: a sorted set, asynq, BullMQ, Celery, Sidekiq
//	imports/rabbitmq        messages in a queue of RabbitMQ
//	imports/tables          tables in a PostgreSQL or a MySQL: River, db-scheduler, Quartz
//
// # Resuming
//
// The id of a task derives from the record's own key, and a task is scheduled only if there is none of that id. A
// repeated import finds its own tasks, counts them as existing, and goes on. No file holds the state of a run. A task
// of the same id with another due time, queue or payload is a conflict. It is named and left alone.
//
// # Copying and moving
//
// A copy leaves the source as it is, and suits a source whose workers are stopped. A move empties the source while its
// workers go on. Each chunk of records takes three steps:
//
//	Claim      the source hides the records from its workers, in one atomic step for each record
//	schedule   the cluster stores the tasks
//	Finish     the source forgets the records; or GiveBack: the workers get those back that the cluster refused
//
// A record that a worker took before the claim is left to the worker. So a record belongs to one side at any time, and
// no clock decides. A crash leaves at most one chunk of records claimed. They wait until the import is run again, which
// begins with them.
//
// A chunk that was stored, but not finished before a crash, is found again by its tasks. Once these have fired and
// their queue has forgotten them (keep_done), they would fire again. So the next run asks the history about each
// claimed record that is overdue. Without a history it schedules the task: Belfry delivers at least once.
//
// # Why not
//
//   - Schedule first, remove from the source afterwards, and cancel the task if a worker was faster: the cancel can be
//     too late, so that tasks due soon have to be left to the workers, and a crash between the steps runs a task twice.
//   - A file with the position of a run: it is wrong as soon as the source changes, and ids that are stable find the
//     position in the cluster itself.
//   - Two-phase commit: no source here has it.
package imports
