package main

import "github.com/belfryhq/belfry/client"

// calls maps the operations of openapi.yaml to the client's methods.
var calls = map[string]call{
	"putTask": schedule, "postTask": schedule, "batch": batch, "settle": settle, "streamEvents": events,
	"consume": consume, "beginBulkOperation": bulk, "backup": backup,
	"drainNode": onNode(client.Rest), "removeNode": onNode(client.Remove), "replaceNode": onNode(client.Replace),
	"resumeNode": onNode(client.Resume),
	"putCluster": operation(func(_, b with) client.OperationRequest {
		return client.OperationRequest{Kind: client.Replication, Replication: arg[int](b, "replication")}
	}),
	"splitShard": operation(func(w, _ with) client.OperationRequest {
		return client.OperationRequest{Kind: client.Split, Shard: arg[int](w, "shard")}
	}),
	"moveSlots": operation(func(_, b with) client.OperationRequest {
		return client.OperationRequest{Kind: client.MoveSlots, Slots: b.text("slots"), To: arg[int](b, "to")}
	}),
	"balanceShards": operation(func(_, _ with) client.OperationRequest {
		return client.OperationRequest{Kind: client.Balance}
	}),
	"getTask": func(k *k) (any, error) {
		if k.query().text("consistency") == "stale" {
			return k.c.GetStale(k.ctx, k.text("id"))
		}
		return k.c.Get(k.ctx, k.text("id"))
	},
	"patchTask": func(k *k) (any, error) { return k.c.Patch(k.ctx, k.text("id"), patchOf(k.body()), k.options()...) },
	"cancelTask": func(k *k) (any, error) {
		outcome, err := k.c.Cancel(k.ctx, k.text("id"), k.options()...)
		return object{"outcome": outcome}, err
	},
	"touchTask": func(k *k) (any, error) {
		return changed(func(whole client.Option) (client.Change, error) {
			return k.c.Touch(k.ctx, k.text("id"), touchOf(k.body()), append(k.options(), whole)...)
		})
	},
	"fireTask": func(k *k) (any, error) {
		return changed(func(whole client.Option) (client.Change, error) {
			return k.c.FireNow(k.ctx, k.text("id"), append(k.options(), whole)...)
		})
	},
	"getTaskHistory": func(k *k) (any, error) { return k.c.TaskHistory(k.ctx, k.text("id"), 0) },
	"listTasks":      func(k *k) (any, error) { return collect("tasks", k.c.List(k.ctx, filterOf(k.query()))) },
	"lease": func(k *k) (any, error) {
		b := k.body()
		demand := client.Demand{Max: arg[int](b, "max"), Wait: b.span("wait"), Lease: b.span("lease")}
		return list[client.Leased]("tasks")(k.c.Lease(k.ctx, k.text("queue"), demand))
	},
	"preview": func(k *k) (any, error) {
		b := k.body()
		return k.c.PreviewSchedule(k.ctx, arg[client.Repeat](b, "repeat"), arg[int](b, "next"))
	},
	"putQueue":   func(k *k) (any, error) { return k.c.PutQueue(k.ctx, queueOf(k.with, k.body())) },
	"patchQueue": func(k *k) (any, error) { return k.c.PatchQueue(k.ctx, k.text("queue"), queuePatch(k.with)) },
	"getQueue":   func(k *k) (any, error) { return k.c.Queue(k.ctx, k.text("queue")) },
	"listQueues": func(k *k) (any, error) {
		all := []*client.Queue{} // the client lists all queues
		for queue, err := range k.c.Queues(k.ctx) {
			if err != nil {
				return nil, err
			}
			if queue.Name == k.query().text("prefix") {
				all = append(all, queue)
			}
		}
		return object{"queues": all}, nil
	},
	"deleteQueue": func(k *k) (any, error) { return nil, k.c.DeleteQueue(k.ctx, k.text("queue")) },
	"pauseQueue":  func(k *k) (any, error) { return k.c.PauseQueue(k.ctx, k.text("queue")) },
	"resumeQueue": func(k *k) (any, error) { return k.c.ResumeQueue(k.ctx, k.text("queue")) },
	"replayDead":  func(k *k) (any, error) { return count(k.c.Replay(k.ctx, k.text("queue"), dead(k.query()))) },
	"dropDead":    func(k *k) (any, error) { return count(k.c.DropDead(k.ctx, k.text("queue"), dead(k.query()))) },
	"putSchedule": func(k *k) (any, error) { return k.c.PutSchedule(k.ctx, scheduleOf(k.with), k.options()...) },
	"patchSchedule": func(k *k) (any, error) {
		return k.c.PatchSchedule(k.ctx, k.text("id"), schedulePatch(k.with), k.options()...)
	},
	"getSchedule": func(k *k) (any, error) { return k.c.GetSchedule(k.ctx, k.text("id")) },
	"listSchedules": func(k *k) (any, error) {
		return collect("schedules", k.c.Schedules(k.ctx, client.ScheduleFilter{Queue: k.query().text("queue")}))
	},
	"deleteSchedule": func(k *k) (any, error) { return nil, k.c.DeleteSchedule(k.ctx, k.text("id"), k.options()...) },
	"pauseSchedule": func(k *k) (any, error) {
		return k.c.PauseSchedule(k.ctx, k.text("id"), k.body().text("note"), k.options()...)
	},
	"resumeSchedule": func(k *k) (any, error) {
		return k.c.ResumeSchedule(k.ctx, k.text("id"), k.body().text("note"), k.options()...)
	},
	"fireSchedule":   func(k *k) (any, error) { return k.c.FireSchedule(k.ctx, k.text("id"), k.options()...) },
	"skipOccurrence": func(k *k) (any, error) { return k.c.SkipOccurrence(k.ctx, k.text("id"), k.options()...) },
	"backfillSchedule": func(k *k) (any, error) {
		b := k.body()
		from, to := arg[client.Instant](b, "from"), arg[client.Instant](b, "to")
		return k.c.Backfill(k.ctx, k.text("id"), from.Time, to.Time, k.options()...)
	},
	"listOccurrences": func(k *k) (any, error) {
		q := k.query()
		return k.c.Occurrences(k.ctx, k.text("id"), arg[int](q, "next"), arg[int](q, "last"))
	},
	"putCalendar": func(k *k) (any, error) {
		calendar := arg[client.Calendar](k.with, "body")
		calendar.Name = k.text("calendar")
		return k.c.PutCalendar(k.ctx, calendar)
	},
	"getCalendar":    func(k *k) (any, error) { return k.c.Calendar(k.ctx, k.text("calendar")) },
	"listCalendars":  func(k *k) (any, error) { return list[client.Calendar]("calendars")(k.c.Calendars(k.ctx)) },
	"deleteCalendar": func(k *k) (any, error) { return k.c.DeleteCalendar(k.ctx, k.text("calendar")) },
	"getOperation":   func(k *k) (any, error) { return k.c.Operation(k.ctx, k.text("id")) },
	"listOperations": func(k *k) (any, error) { return list[client.Operation]("operations")(k.c.Operations(k.ctx)) },
	"stopOperation":  func(k *k) (any, error) { return k.c.StopOperation(k.ctx, k.text("id"), k.options()...) },
	"getCluster":     func(k *k) (any, error) { return k.c.Cluster(k.ctx) },
	"listNodes":      func(k *k) (any, error) { return list[client.Node]("nodes")(k.c.Nodes(k.ctx)) },
	"getDoctor":      func(k *k) (any, error) { return list[client.Finding]("findings")(k.c.Doctor(k.ctx)) },
	"getWheel":       func(k *k) (any, error) { return k.c.Wheel(k.ctx, 0) },
	"getActivity":    func(k *k) (any, error) { return k.c.Activity(k.ctx, 0, 0) },
	"readyz":         func(k *k) (any, error) { return true, k.c.Ready(k.ctx) },
	"readAudit": func(k *k) (any, error) {
		page, err := k.c.Audit(k.ctx, client.AuditQuery{})
		return object{"records": err == nil && len(page.Records) > 0}, err
	},
	"advance": func(k *k) (any, error) { return k.c.Advance(k.ctx, k.body().span("by")) },
	"newKey": func(k *k) (any, error) {
		b := k.body()
		return newKey(k.c.CreateKey(k.ctx, client.KeyRequest{Name: b.text("name"), Grants: arg[[]client.Grant](b, "grants")}))
	},
	"rotateKey": func(k *k) (any, error) {
		return newKey(k.c.RotateKey(k.ctx, k.text("id"), k.body().span("overlap")))
	},
	"rotateJWTKeys": func(k *k) (any, error) {
		return list[client.JWTKey]("keys")(k.c.RotateJWTKeys(k.ctx, k.body().span("overlap")))
	},
	"getKey":    func(k *k) (any, error) { return k.c.Key(k.ctx, k.text("id")) },
	"listKeys":  func(k *k) (any, error) { return list[client.APIKey]("keys")(k.c.Keys(k.ctx)) },
	"revokeKey": func(k *k) (any, error) { return nil, k.c.RevokeKey(k.ctx, k.text("id")) },
	"whoAmI":    func(k *k) (any, error) { return k.c.WhoAmI(k.ctx) },
	"putNamespace": func(k *k) (any, error) {
		return k.c.PutNamespace(k.ctx, k.text("ns"), arg[client.Quotas](k.with, "body"))
	},
	"getNamespace":    func(k *k) (any, error) { return k.c.Namespace(k.ctx, k.text("ns")) },
	"listNamespaces":  func(k *k) (any, error) { return list[client.Namespace]("namespaces")(k.c.Namespaces(k.ctx)) },
	"deleteNamespace": func(k *k) (any, error) { return k.c.DeleteNamespace(k.ctx, k.text("ns")) },
	"newJoinToken":    func(k *k) (any, error) { return k.c.NewJoinToken(k.ctx, k.query().span("valid_for")) },
	"listJoinTokens":  func(k *k) (any, error) { return list[client.JoinToken]("tokens")(k.c.JoinTokens(k.ctx)) },
	"removeJoinToken": func(k *k) (any, error) { return nil, k.c.RemoveJoinToken(k.ctx, k.text("id")) },
}
