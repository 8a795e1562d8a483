package tables

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/belfryhq/belfry/imports"
)

// DBScheduler opens the executions of db-scheduler that no scheduler has picked. The payload is the task data as the
// serializer of the program has written it.
func DBScheduler(ctx context.Context, o Options) (*Source, error) {
	const key = " WHERE task_name = ? AND task_instance = ? AND "
	return open(ctx, o, format{
		table:   "scheduled_tasks",
		columns: "task_name, task_instance, task_data, execution_time, version, " + dbSchedulerClaim,
		from:    "{table} WHERE execution_time IS NOT NULL AND (picked = false OR " + dbSchedulerClaim + ")",
		order:   dbSchedulerClaim + " DESC, execution_time, task_name, task_instance",
		read:    readDBScheduler,
		// An execution without a heartbeat is never dead.
		claim: "UPDATE {table} SET picked = true, picked_by = 'belfry-import', last_heartbeat = NULL, version = version + 1" +
			key + "picked = false AND version = ?",
		finish: []string{"DELETE FROM {table}" + key + dbSchedulerClaim},
		giveBack: "UPDATE {table} SET picked = false, picked_by = NULL, version = version + 1" +
			key + dbSchedulerClaim,
	})
}

const dbSchedulerClaim = "coalesce(picked_by, '') = 'belfry-import'"

var errRecurs = errors.New("the task recurs by a rule of the program: make a schedule of that one")

func readDBScheduler(rows *sql.Rows) (r imports.Record, err error) {
	var name, instance string
	var data []byte
	var due time.Time
	var version int64
	if err := rows.Scan(&name, &instance, &data, &due, &version, &r.Claimed); err != nil {
		return r, err
	}
	r.Key, r.Text = "db-scheduler:"+name+":"+instance, string(data)
	r.Origin = origin{key: []any{name, instance}, version: []any{version}}
	if instance == "recurring" { // as db-scheduler calls the only instance of such a task
		r.Err = errRecurs
	}
	r.Task = dueTask(due, name)
	imports.SetPayload(&r.Task, data)
	return r, nil
}
