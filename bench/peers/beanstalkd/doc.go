// Package beanstalkd measures the work queue beanstalkd. Its log is on disk before each acknowledgement (-f0).
//
//   - Delays are whole seconds. The driver rounds them up, so that no task is early and each is up to a second late.
//   - The server numbers the jobs. The driver maps the id of a task to the number.
//   - Each caller has a connection of its own.
//   - A batch is many commands in flight on one connection, which the client library allows. Each command still costs
//     the server an fsync.
//   - The delay of a job cannot be changed without reserving the job, so the package has no heartbeats.
package beanstalkd
