// Package beanstalkd measures the work queue of that name, with its log on the disk before it acknowledges (-f0).
//
// Its delays are whole seconds: they are rounded up, so that no task is early and each is up to a second late. It gives
// jobs numbers of its own, which are kept here by the id of the task. Callers have a connection each; a batch is many
// commands under way on one connection, which its client library allows, and each still costs the server an fsync.
// A delay cannot be changed without reserving the job, so there are no heartbeats.
package beanstalkd
