package tables

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/imports"
)

// River opens the jobs of River that are scheduled or wait for a retry.
func River(ctx context.Context, o Options) (*Source, error) {
	return open(ctx, o, format{
		table:   "river_job",
		columns: "id, queue, kind, args, attempt, max_attempts, scheduled_at, state = 'pending'",
		from:    "{table} WHERE state IN ('scheduled', 'retryable') OR " + riverClaim,
		order:   "state = 'pending' DESC, scheduled_at, id",
		read:    readRiver,
		claim: "UPDATE {table} SET metadata = jsonb_set(metadata, '{belfry_import}', to_jsonb(state::text)), " +
			"state = 'pending' WHERE id = ? AND state IN ('scheduled', 'retryable') AND scheduled_at = ?",
		finish: []string{"DELETE FROM {table} WHERE id = ? AND " + riverClaim},
		giveBack: "UPDATE {table} SET state = (metadata->>'belfry_import')::text::river_job_state, " +
			"metadata = metadata - 'belfry_import' WHERE id = ? AND " + riverClaim,
	})
}

const riverClaim = "state = 'pending' AND metadata->>'belfry_import' IS NOT NULL"

func readRiver(rows *sql.Rows) (r imports.Record, err error) {
	var id int64
	var queue, kind string
	var args []byte
	var attempt, most int
	var due time.Time
	if err := rows.Scan(&id, &queue, &kind, &args, &attempt, &most, &due, &r.Claimed); err != nil {
		return r, err
	}
	r.Key, r.Text = fmt.Sprint("river:", id), string(args)
	r.Origin = origin{key: []any{id}, version: []any{due}}
	r.Task = dueTask(due, kind)
	r.Task.Queue, r.Task.Payload = queue, args
	r.Task.Retry = &client.Retry{MaxAttempts: max(most-attempt, 1)}
	return r, nil
}
