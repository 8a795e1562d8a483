// Package tables has the sources that are tables of a PostgreSQL or of a MySQL.
//
//	River         river_job, of jobs that are scheduled or wait for a retry; PostgreSQL only
//	DBScheduler   scheduled_tasks, of executions that no scheduler has picked
//	Quartz        QRTZ_TRIGGERS, and the tables beside it: one-time triggers as tasks, others as schedules
//
// # Moving
//
// A claim changes the state of a row, in one statement, to one that its scheduler leaves alone. A row whose state or
// due time has changed since it was read is not claimed: all three schedulers take a due row by changing its state, so
// that it goes to one side only. Finish deletes the row, and GiveBack restores its state. Claims outlast the import:
//
//	River         state pending, with the former state in the member belfry_import of the metadata
//	DBScheduler   picked by belfry-import, without a heartbeat
//	Quartz        trigger state BELFRY
//
// # Reading
//
// One query reads all rows, claimed ones first, and streams them on a connection of its own.
//
// # Why not
//
//   - github.com/lib/pq, which is 5 MB smaller than pgx: package relay has pgx and go-sql-driver/mysql in the program
//     already, under database/sql, so that the same statements serve both servers.
//   - A table of claims: the state of a row says the same, and needs no right to create tables.
//   - APScheduler: its rows are pickles, which nothing but Python reads safely. The page about imports has a program
//     that writes them as lines of JSON.
package tables
