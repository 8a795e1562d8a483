package httpapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/httpapi/origin"
)

// reach is the part of the cluster that a call is about.
type reach uint8

// The reaches of calls. Those of one namespace, and of operations, also have routes below /v1/namespaces/{ns}.
const (
	noReach      reach = iota // none is declared: the server does not start
	open                      // the call needs no credentials
	anyCaller                 // any credentials, also without a grant
	anywhere                  // the role in some namespace; the handler decides for each thing
	wholeCluster              // the role for all namespaces
	oneNamespace              // the role in the call's namespace; the handler, or middleware, checks queues and ids
)

// need is the demand of a route on its callers.
type need struct {
	role  access.Role
	reach reach
}

var (
	toAll    = need{access.Open, open}
	toCaller = need{access.Open, anyCaller}
)

func somewhere(r access.Role) need   { return need{r, anywhere} }
func inCluster(r access.Role) need   { return need{r, wholeCluster} }
func inNamespace(r access.Role) need { return need{r, oneNamespace} }

// endpoint is a route with its need. All of them stand in the table of endpoints, which is the only way to register a
// route. A test compares it with the security requirements in openapi.yaml.
type endpoint struct {
	method, path string
	need         need
	handler      echo.HandlerFunc
}

const doctorPath = "/v1/doctor"

// namespacePath begins the routes of calls that name their namespace. The rest of such a route is that of the short
// one.
const namespacePath = "/v1/namespaces/:ns"

// register registers the endpoints. It refuses one without a need, and one that is there twice.
func (s *Server) register(endpoints []endpoint) error {
	seen := map[string]bool{}
	for _, e := range endpoints {
		name := e.method + " " + e.path
		switch {
		case e.need.reach == noReach || (e.need.role == access.Open) != (e.need.reach <= anyCaller):
			return fmt.Errorf("httpapi: the route %s declares no need", name)
		case seen[name]:
			return fmt.Errorf("httpapi: the route %s is there twice", name)
		}
		seen[name] = true
		s.add(e)
	}
	return nil
}

func (s *Server) add(e endpoint) {
	if e.need.reach == open {
		s.echo.Add(e.method, e.path, s.briefly(e.handler))
		return
	}
	s.echo.Add(e.method, e.path, s.authorize(e.need, e.isAudited(), e.handler))
	if e.need.reach == oneNamespace || strings.HasPrefix(e.path, operationsPath) {
		below := need{e.need.role, oneNamespace}
		s.echo.Add(e.method, namespacePath+strings.TrimPrefix(e.path, "/v1"), s.authorize(below, e.isAudited(), e.handler))
	}
}

// operationsPath begins the routes of operations. They exist below a namespace, too, for the operations on it.
const operationsPath = "/v1/operations"

// shortRoute returns the route of the same call without a namespace in the path.
func shortRoute(route string) string {
	if rest, ok := strings.CutPrefix(route, namespacePath+"/"); ok {
		return "/v1/" + rest
	}
	return route
}

// endpoints is the table of calls. A call's middleware is listed in the order in which it acts: admission first, then
// cheap checks. The check of the caller comes before all of it, and the body last, in the handler.
func (s *Server) endpoints() []endpoint {
	return slices.Concat(s.taskEndpoints(), s.scheduleEndpoints(), s.calendarEndpoints(), s.queueEndpoints(),
		s.accessEndpoints(), s.operationEndpoints(), s.nodeEndpoints())
}

func (s *Server) taskEndpoints() []endpoint {
	tasks, events, batches := &taskService{s.core}, &eventService{s.core, s.cfg.Events}, &batchService{s.core, s.commits}
	id, read, schedule := namedTask("id"), access.Read, access.Schedule
	return []endpoint{
		{"POST", "/v1/tasks", inNamespace(schedule), with(tasks.post, s.single, s.scheduling, unconditional, params())},
		{"GET", "/v1/tasks", inNamespace(read), with(tasks.list, s.single, s.watched, s.hurried,
			params("state", "queue", "prefix", "label", "due_after", "due_before", "order", "limit", "cursor", "include"))},
		{"PUT", "/v1/tasks/:id", inNamespace(schedule), with(tasks.put, s.single, s.scheduling, params(), namedNew("id"))},
		{"GET", "/v1/tasks/:id", inNamespace(read), with(tasks.get, s.single, params("consistency"), consistency, id)},
		{"PATCH", "/v1/tasks/:id", inNamespace(schedule), with(tasks.patch, s.single, params(), id)},
		{"DELETE", "/v1/tasks/:id", inNamespace(schedule), with(tasks.cancel, s.single, params(), id)},
		{"POST", "/v1/tasks/:id/touch", inNamespace(schedule), with(tasks.touch, s.single, params(), id)},
		{"POST", "/v1/tasks/:id/fire", inNamespace(schedule), with(tasks.fire, s.single, params(), id)},
		{"GET", "/v1/tasks/:id/history", inNamespace(read), with(events.ofTask, s.single, params("limit"), id)},
		{"GET", "/v1/events", inNamespace(read), with(events.stream, s.lasting(s.watchers), s.watched,
			params("queue", "type", "label", "prefix", "since", "after", "follow"))},
		{"POST", "/v1/preview", inNamespace(read), with(tasks.preview, s.single, params())},
		{"POST", "/v1/batch", inNamespace(schedule), with(batches.serve, params(), lines, s.lasting(s.batches), s.watched)},
	}
}

func (s *Server) scheduleEndpoints() []endpoint {
	schedules := &scheduleService{s.core}
	id, read, schedule := namedNew("id"), inNamespace(access.Read), inNamespace(access.Schedule)
	return []endpoint{
		{"GET", "/v1/schedules", read, with(schedules.list, s.single, s.watched, s.hurried,
			params("queue", "prefix", "label", "order", "limit", "cursor", "include"))},
		{"PUT", "/v1/schedules/:id", schedule, with(schedules.put, s.single, s.scheduling, params(), id)},
		{"GET", "/v1/schedules/:id", read, with(schedules.get, s.single, params("consistency"), consistency, id)},
		{"PATCH", "/v1/schedules/:id", schedule, with(schedules.patch, s.single, s.scheduling, params(), id)},
		{"DELETE", "/v1/schedules/:id", schedule, with(schedules.remove, s.single, params(), soundKey, id)},
		{"POST", "/v1/schedules/:id/pause", schedule, with(schedules.pause, s.single, params(), id)},
		{"POST", "/v1/schedules/:id/resume", schedule, with(schedules.resume, s.single, params(), id)},
		{"POST", "/v1/schedules/:id/fire", schedule, with(schedules.fire, s.single, s.scheduling, params(), id)},
		{"POST", "/v1/schedules/:id/skip", schedule, with(schedules.skip, s.single, params(), id)},
		{"POST", "/v1/schedules/:id/backfill", schedule, with(schedules.backfill, s.single, s.scheduling, params(), id)},
		{"GET", "/v1/schedules/:id/occurrences", read, with(schedules.occurrences, s.single,
			params("next", "last", "consistency"), consistency, id)},
	}
}

func (s *Server) calendarEndpoints() []endpoint {
	calendars := &calendarService{s.core, s.cfg.Backend, s.cfg.Backend}
	name, read, operate := named("calendar"), inNamespace(access.Read), inNamespace(access.Operate)
	return []endpoint{
		{"GET", "/v1/calendars", read, with(calendars.list, s.single, params())},
		{"PUT", "/v1/calendars/:calendar", operate, with(calendars.put, s.single, params(), soundKey, name)},
		{"GET", "/v1/calendars/:calendar", read, with(calendars.get, s.single, params(), name)},
		{"DELETE", "/v1/calendars/:calendar", operate, with(calendars.remove, s.single, params(), soundKey, name)},
	}
}

func (s *Server) queueEndpoints() []endpoint {
	queues, consumers := &queueService{s.core, s.cfg.Backend}, &consumerService{s.core, s.cfg.Backend}
	queue, dead := named("queue"), params("prefix", "label", "due_after", "due_before", "limit", "id")
	read, consume, operate := inNamespace(access.Read), inNamespace(access.Consume), inNamespace(access.Operate)
	return []endpoint{
		{"GET", "/v1/queues", read, with(queues.list, s.single, params("prefix", "limit", "cursor"))},
		{"PUT", "/v1/queues/:queue", operate, with(queues.put, s.single, params(), soundKey, queue)},
		{"GET", "/v1/queues/:queue", read, with(queues.get, s.single, params(), queue)},
		{"PATCH", "/v1/queues/:queue", operate, with(queues.patch, s.single, params(), soundKey, queue)},
		{"DELETE", "/v1/queues/:queue", operate, with(queues.remove, s.single, params(), soundKey, queue)},
		{"POST", "/v1/queues/:queue/pause", operate, with(queues.pause, s.single, params(), soundKey, queue)},
		{"POST", "/v1/queues/:queue/resume", operate, with(queues.resume, s.single, params(), soundKey, queue)},
		{"POST", "/v1/queues/:queue/dead/replay", operate,
			with(queues.replayDead, s.single, s.watched, s.hurried, dead, soundKey, queue)},
		{"DELETE", "/v1/queues/:queue/dead", operate,
			with(queues.dropDead, s.single, s.watched, s.hurried, dead, soundKey, queue)},
		{"POST", "/v1/queues/:queue/settle", consume, with(consumers.settle, s.single, params(), soundKey, queue)},
		{"POST", "/v1/queues/:queue/lease", consume,
			with(consumers.lease, s.lasting(s.polls), s.watched, s.hurried, params(), soundKey, queue, s.consuming)},
		{"POST", "/v1/queues/:queue/stream", consume,
			with(consumers.stream, s.lasting(s.streams), s.watched, params("credit", "lease"), soundKey, queue, s.consuming)},
	}
}

// accessEndpoints are the calls about keys and namespaces. Callers see those that their grants reach.
func (s *Server) accessEndpoints() []endpoint {
	keys, namespaces := &keyService{s.core, s.cfg.Backend}, &namespaceService{s.core, s.cfg.Backend}
	tokens := &jwtKeyService{s.core, s.cfg.Backend}
	read, admin, adminAll := somewhere(access.Read), somewhere(access.Admin), inCluster(access.Admin)
	return []endpoint{
		{"GET", "/v1/whoami", toCaller, with(keys.whoAmI, s.single, params())},
		{"POST", "/v1/keys", admin, with(keys.create, s.single, params(), soundKey)},
		{"GET", "/v1/keys", admin, with(keys.list, s.single, params())},
		{"GET", "/v1/keys/:id", admin, with(keys.get, s.single, params())},
		{"DELETE", "/v1/keys/:id", admin, with(keys.remove, s.single, params(), soundKey)},
		{"POST", "/v1/keys/:id/rotate", admin, with(keys.rotate, s.single, params(), soundKey)},
		{"GET", origin.KeySetPath, toAll, tokens.keySet},
		{"POST", "/v1/cluster/jwt-keys/rotate", adminAll, with(tokens.rotate, s.single, params(), soundKey)},
		{"GET", "/v1/namespaces", read, with(namespaces.list, s.single, params())},
		{"GET", namespacePath, read, with(namespaces.get, s.single, params())},
		{"PUT", namespacePath, adminAll, with(namespaces.put, s.single, params(), soundKey)},
		{"DELETE", namespacePath, adminAll, with(namespaces.remove, s.single, params(), soundKey)},
	}
}

// operationEndpoints are the calls about the cluster as a whole and the operations on it.
func (s *Server) operationEndpoints() []endpoint {
	operations := &operationService{s.core, s.cfg.Backend}
	id, read, operate := named("id"), inCluster(access.Read), inCluster(access.Operate)
	table := []endpoint{
		{"GET", "/v1/cluster", read, with(operations.cluster, s.single, params())},
		{"PUT", "/v1/cluster", operate, with(operations.putCluster, s.single, params(), soundKey)},
		{"GET", "/v1/nodes", read, with(operations.listNodes, s.single, params())},
		{"POST", "/v1/shards/:shard/split", operate, with(operations.split, s.single, params(), soundKey)},
		{"POST", "/v1/shards/move", operate, with(operations.move, s.single, params(), soundKey)},
		{"POST", "/v1/shards/balance", operate, with(operations.balance, s.single, params(), soundKey)},
		{"GET", "/v1/operations", somewhere(access.Read), with(operations.list, s.single, params())},
		{"GET", "/v1/operations/:id", somewhere(access.Read), with(operations.get, s.single, params(), id)},
		{"POST", "/v1/operations", inNamespace(access.Operate), with(operations.beginBulk, s.single, params(), soundKey)},
		{"DELETE", "/v1/operations/:id", somewhere(access.Operate),
			with(operations.stop, s.single, params(), soundKey, id)},
	}
	for _, kind := range []string{drainNode, resumeNode, "remove", "replace"} {
		table = append(table, endpoint{"POST", "/v1/nodes/:id/" + kind, operate,
			with(operations.onNode(kind), s.single, params(), soundKey, id)})
	}
	return table
}

// nodeEndpoints are the calls about this node and its view of the cluster.
func (s *Server) nodeEndpoints() []endpoint {
	nodes, audits := &nodeService{s.core, s.cfg.Backend, s.cfg.Gatherer, s.cfg.DevClock}, &auditService{s.core}
	read, operate := inCluster(access.Read), inCluster(access.Operate)
	table := []endpoint{
		{"GET", "/healthz", toAll, nodes.healthz},
		{"GET", "/readyz", toAll, nodes.readyz},
		{"GET", "/openapi.yaml", toAll, nodes.openAPI},
		{"GET", "/metrics", read, nodes.metricsPage()},
		{"GET", "/v1/map", somewhere(access.Read), with(nodes.shardMap, s.single, params())},
		{"GET", doctorPath, read, with(nodes.doctor, s.lasting(s.doctors), s.watched, s.hurried, params())},
		{"GET", "/v1/wheel", read, with(nodes.wheel, s.single, s.watched, s.hurried, params("shard"))},
		{"GET", "/v1/activity", read, with(nodes.activity, s.single, s.watched, s.hurried, params("shard", "since"))},
		{"POST", "/v1/nodes/tokens", operate, with(nodes.createToken, s.single, params("valid_for"))},
		{"GET", "/v1/nodes/tokens", operate, with(nodes.listTokens, s.single, params())},
		{"DELETE", "/v1/nodes/tokens/:id", operate, with(nodes.removeToken, s.single, params())},
		{"GET", backupPath, operate, with(nodes.backup, s.lasting(s.backups), s.watched, s.hurried, params("rate"))},
		{"GET", "/v1/audit", inCluster(access.Admin),
			with(audits.read, s.single, s.watched, s.hurried, params("after", "since", "limit"))},
	}
	if s.cfg.DevClock != nil {
		table = append(table, endpoint{"POST", "/v1/dev/advance", operate, with(nodes.advance, s.single, params())})
	}
	return table
}

// with puts middleware around a handler, the first one outermost. It does so once, while echo would do so for every
// call.
func with(h echo.HandlerFunc, middleware ...echo.MiddlewareFunc) echo.HandlerFunc {
	for _, m := range slices.Backward(middleware) {
		h = m(h)
	}
	return h
}
