package httpapi

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// Nodes is this node's view of its cluster, and the means of joining and saving the cluster.
type Nodes interface {
	Outlooks

	// Backup writes a backup of the cluster to w, at rate bytes a second at most; 0: no limit. An error before the first
	// byte is package task's.
	Backup(ctx context.Context, w io.Writer, rate int64) (BackupSummary, error)

	// NewJoinToken makes a one-time token by which one new node may join the cluster within its life.
	NewJoinToken(ctx context.Context, life time.Duration) (view.NewJoinToken, error)

	// JoinTokens returns the one-time tokens that this node knows, by id.
	JoinTokens() []view.JoinToken

	// RemoveJoinToken removes a one-time token.
	RemoveJoinToken(ctx context.Context, id string) (existed bool, err error)

	// Doctor returns the troubles of the cluster, the gravest first. It also works without a quorum.
	Doctor(ctx context.Context) []view.Finding

	// Self returns the id of this node's cluster, empty if it has none yet, and the node's id.
	Self() (clusterID, nodeID string)

	// Map returns this node's present view of slots, leaders and addresses, without the Namespace. It asks no other node.
	Map() view.Map

	// Ready returns nil once this node knows the map and its replicas have caught up once, or else an error that names the
	// missing part.
	Ready() error
}

// nodeService answers the calls about this node and its view of the cluster.
type nodeService struct {
	*core
	backend  Nodes
	gatherer prometheus.Gatherer
	clock    DevClock // nil: the node is not in dev mode
}

// DevClock is the clock of a node in dev mode.
type DevClock interface {
	// Advance sets the clock ahead, and returns its new time and the number of attempts and leases that began meanwhile.
	// A repeat with the same key goes on with the same advance.
	Advance(ctx context.Context, key string, by time.Duration) (now time.Time, begun uint64, err error)
}

//go:embed openapi.yaml
var openAPIDocument []byte

func (s *nodeService) openAPI(c echo.Context) error {
	return c.Blob(http.StatusOK, "application/yaml", openAPIDocument)
}

// shardMap answers the map, which tells nothing about tasks and namespaces, so that every caller may read it.
func (s *nodeService) shardMap(c echo.Context) error {
	v := s.backend.Map()
	v.Namespace = callOf(c).caller.Namespace()
	v.Nodes, v.Shards = orEmpty(v.Nodes), orEmpty(v.Shards)
	for i := range v.Shards {
		v.Shards[i].Slots = orEmpty(v.Shards[i].Slots)
	}
	return writeValue(c, http.StatusOK, v)
}

// createToken makes a one-time token of a new node.
func (s *nodeService) createToken(c echo.Context) error {
	life, err := tokenLife(c.QueryParam("valid_for"))
	if err == nil {
		err = s.emptyBody(c)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	token, err := s.backend.NewJoinToken(ctx, life)
	if err != nil {
		return err
	}
	callOf(c).noteMade("id", token.ID)
	return writeValue(c, http.StatusCreated, token)
}

// The life of a one-time token.
const (
	leastTokenLife, mostTokenLife = time.Minute, 30 * 24 * time.Hour
	usualTokenLife                = time.Hour
)

// tokenLife reads the life of a one-time token.
func tokenLife(text string) (time.Duration, error) {
	if text == "" {
		return usualTokenLife, nil
	}
	life, err := contract.ParseDuration(text)
	if err != nil || life < leastTokenLife || life > mostTokenLife {
		return 0, fieldProblem("valid_for", fmt.Sprintf("is %q", contract.Clip(text)), "1m to 30d")
	}
	return life, nil
}

func (s *nodeService) listTokens(c echo.Context) error {
	return writeValue(c, http.StatusOK, map[string]any{"tokens": orEmpty(s.backend.JoinTokens())})
}

func (s *nodeService) removeToken(c echo.Context) error {
	if err := s.emptyBody(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	existed, err := s.backend.RemoveJoinToken(ctx, c.Param("id"))
	switch {
	case err != nil:
		return err
	case !existed:
		return &problem{kind: tokenNotFound, detail: "no one-time token has this id"}
	}
	return c.NoContent(http.StatusNoContent)
}

// maxDoctors is the number of calls of /v1/doctor in progress. They have places of their own, because a node should
// answer them when it is too busy for other calls.
const maxDoctors = 16

func (s *nodeService) doctor(c echo.Context) error {
	ctx, cancel := context.WithTimeout(callOf(c).life(), s.bounds.RequestTimeout)
	defer cancel()
	findings := s.backend.Doctor(ctx)
	if refusal := callOf(c).right.Refusal(); refusal != nil {
		return refusal
	}
	return writeFindings(c.Response(), findings)
}

// writeFindings answers GET /v1/doctor. Lists are [] in JSON, and never null.
func writeFindings(w http.ResponseWriter, findings []view.Finding) error {
	findings = append([]view.Finding{}, findings...)
	for i := range findings {
		findings[i].Do = orEmpty(findings[i].Do)
	}
	body, err := json.Marshal(map[string]any{"findings": findings})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, append(body, '\n'))
	return nil
}

// healthz answers that the process runs. It reports nothing about the cluster.
func (s *nodeService) healthz(c echo.Context) error {
	writeJSON(c.Response(), http.StatusOK, []byte("{\"status\":\"ok\"}\n"))
	return nil
}

// readyz also answers the cluster's and the node's id, so that a client with an address from /v1/cluster can check that
// it leads to that node.
func (s *nodeService) readyz(c echo.Context) error {
	if err := s.backend.Ready(); err != nil {
		return &problem{kind: notReady, detail: err.Error(), retryAfter: 1}
	}
	cluster, node := s.backend.Self()
	b := contract.AppendString([]byte(`{"status":"ready","cluster_id":`), cluster)
	b = contract.AppendString(append(b, `,"node":`...), node)
	writeJSON(c.Response(), http.StatusOK, append(b, "}\n"...))
	return nil
}

func (s *nodeService) metricsPage() echo.HandlerFunc {
	return echo.WrapHandler(promhttp.HandlerFor(s.gatherer, promhttp.HandlerOpts{}))
}

// Trailers of a backup.
const (
	backupSum      = "Belfry-Backup-Sha256"
	backupInstants = "Belfry-Backup-Shards"
)

// BackupSummary describes a backup that was written whole.
type BackupSummary struct {
	SHA256 string // of all bytes before the last piece, in hexadecimal
	Shards []BackupShard
}

// BackupShard is the instant of one shard in a backup.
type BackupShard struct {
	Shard uint32
	Index uint64 // in the shard's log
	CutMs int64  // the leader's clock: all that was acknowledged by then is in the backup
}

// backup streams a backup of the cluster. Errors before the first byte are answered as problems. After that byte an
// error breaks the connection off, and the trailers and the backup's last piece are missing.
func (s *nodeService) backup(c echo.Context) error {
	rate, err := rateOf(c.QueryParam("rate"))
	if err != nil {
		return err
	}
	stops := &problem{kind: notReady, detail: "this node stops", retryAfter: 1}
	if s.closing.Err() != nil {
		return stops
	}
	right := callOf(c).right
	ctx, cancel := context.WithCancel(callOf(c).life())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	s.writeUntil(c, time.Time{}) // the shards may take a while to cut, and each write has a limit of its own
	w := &backupWriter{s: s, c: c, ctx: ctx}
	summary, err := s.backend.Backup(ctx, w, rate)
	switch {
	case err != nil && !w.began && s.closing.Err() != nil:
		return stops
	case err != nil && !w.began && right.Refusal() != nil:
		return right.Refusal()
	case err != nil && !w.began:
		return s.readFailed(err)
	case err != nil:
		s.logger.Warn("a backup was broken off", "bytes", w.written, "err", err)
		panic(http.ErrAbortHandler)
	}
	h := c.Response().Header()
	h.Set(backupSum, summary.SHA256)
	h.Set(backupInstants, instantsOf(summary.Shards))
	return nil
}

// instantsOf lists the cuts of the shards for a trailer.
func instantsOf(shards []BackupShard) string {
	texts := make([]string, len(shards))
	for i, one := range shards {
		at := strings.Trim(string(contract.AppendInstant(nil, one.CutMs)), `"`)
		texts[i] = fmt.Sprintf("%d;index=%d;at=%s", one.Shard, one.Index, at)
	}
	return strings.Join(texts, ", ")
}

// backupWriter writes the body of a backup. A client that takes no byte for BatchStall is cut off.
type backupWriter struct {
	s       *nodeService
	c       echo.Context
	ctx     context.Context
	began   bool // a byte was written
	written int64
}

const backupPiece = 64 << 10 // bytes of one write, at most, so that a slow client can take each in time

// Write writes b in pieces.
func (w *backupWriter) Write(b []byte) (n int, err error) {
	if !w.began && w.ctx.Err() == nil {
		w.head()
	}
	for n < len(b) && err == nil {
		var m int
		m, err = w.piece(b[n:min(len(b), n+backupPiece)])
		n += m
	}
	return n, err
}

func (w *backupWriter) head() {
	w.began = true
	h := w.c.Response().Header()
	h.Set("Content-Type", "application/vnd.belfry.backup")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", `attachment; filename="belfry.backup"`)
	h.Set("Trailer", backupSum+", "+backupInstants)
	w.c.Response().WriteHeader(http.StatusOK)
}

func (w *backupWriter) piece(b []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	w.s.writeWithin(w.c, w.s.bounds.BatchStall)
	n, err := w.c.Response().Write(b)
	w.written += int64(n)
	if err == nil && len(b) < backupPiece { // it may take a while until more comes
		w.s.ignoreUnsupported(http.NewResponseController(w.c.Response().Writer).Flush())
	}
	// A deadline that passes between two writes would end an HTTP/2 stream.
	w.s.writeUntil(w.c, time.Time{})
	return n, err
}

const leastRate, mostRate = 1 << 10, 1 << 40

// rateOf reads a number of bytes a second. Empty: 0, which means no limit.
func rateOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < leastRate || n > mostRate {
		return 0, fieldProblem("rate", fmt.Sprintf("is %q", contract.Clip(text)),
			fmt.Sprintf("%d to %d bytes a second", leastRate, mostRate))
	}
	return n, nil
}

// advanceTime bounds an advance of the clock, which takes as long as the attempts that come due.
const advanceTime = 5 * time.Minute

// advance sets the clock of a node in dev mode ahead.
func (s *nodeService) advance(c echo.Context) error {
	by, err := bodyOf(s.core, c, parseAdvance)
	if err != nil {
		return err
	}
	cmd := new(command)
	if err := cmd.takeKey(c.Request().Header); err != nil {
		return err
	}
	s.writeWithin(c, advanceTime+s.bounds.RequestTimeout)
	ctx, cancel := context.WithTimeout(c.Request().Context(), advanceTime)
	defer cancel()
	now, begun, err := s.clock.Advance(ctx, cmd.keyText, by)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, view.Advanced{Now: view.InstantOf(now.UnixMilli()), Begun: int(begun)})
}

// parseAdvance reads the time by which a clock is set ahead.
func parseAdvance(data []byte) (by time.Duration, err error) {
	const limit = "above 0, and 100 years at most"
	err = contract.Members{"by": span(&by, time.Nanosecond, task.MaxDelay, limit)}.Root(data, false)
	if err == nil && by == 0 {
		err = fieldProblem("by", "is absent", limit)
	}
	return by, err
}

// Outlooks counts the tasks that wait in the cluster, and the events of the last quarter of an hour. Shard 0 stands for
// all shards. The sums leave out the shards that are missing, because their leaders did not answer.
type Outlooks interface {
	// Outlook counts the tasks in the timing wheel of a shard.
	Outlook(ctx context.Context, shard uint32) (sum *fsmpb.Outlook, missing []uint32, err error)

	// Activity counts events, in the steps of five seconds that begin after an instant in Unix milliseconds.
	Activity(ctx context.Context, shard uint32, afterMs int64) (sum *fsmpb.Activity, missing []uint32, err error)
}

func (s *nodeService) wheel(c echo.Context) error {
	shard, err := onlyShard(c.QueryParams())
	if err != nil {
		return err
	}
	o, missing, err := s.backend.Outlook(c.Request().Context(), shard)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, wheelView(o, missing))
}

func wheelView(o *fsmpb.Outlook, missing []uint32) *view.Wheel {
	within := append(o.Within, make([]uint64, 5)...) // all zero if no shard answered
	v := &view.Wheel{
		Now: view.InstantOf(o.NowMs), Waiting: o.Waiting, Beside: o.Beside, Missing: orEmpty(missing), Rows: []view.Ring{},
		DueWithin: view.DueWithin{
			Second: within[0], Seconds10: within[1], Minute: within[2], Minutes10: within[3], Hour: within[4],
		},
		Steps: view.DueSteps{
			From: view.InstantOf(o.FirstMs), StepMs: task.OutlookStep.Milliseconds(), Tasks: orEmpty(o.Steps),
		},
	}
	for _, r := range o.Rows {
		v.Rows = append(v.Rows, view.Ring{
			Level: int(r.Level), From: view.InstantOf(r.FirstMs), SlotMs: r.SlotMs, Tasks: r.Tasks,
		})
	}
	return v
}

func (s *nodeService) activity(c echo.Context) error {
	query := c.QueryParams()
	shard, err := onlyShard(query)
	if err != nil {
		return err
	}
	after := int64(0)
	if query.Has("since") {
		since, err := parseSince(query.Get("since"), s.arrived().at)
		if err != nil {
			return err
		}
		after = since.UnixMilli() - 1
	}
	a, missing, err := s.backend.Activity(c.Request().Context(), shard, after)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, activityView(a, missing))
}

func activityView(a *fsmpb.Activity, missing []uint32) *view.Activity {
	v := &view.Activity{
		Since: view.InstantOf(a.SinceMs), StepMs: task.ActivityStep.Milliseconds(), Steps: []view.ActivityStep{},
		Missing: orEmpty(missing),
	}
	for _, bound := range task.LatenessBounds {
		v.LateWithinMs = append(v.LateWithinMs, bound.Milliseconds())
	}
	for _, s := range a.Steps {
		v.Steps = append(v.Steps, view.ActivityStep{
			At: view.InstantOf(s.AtMs), Scheduled: s.Scheduled, Fired: s.Fired, Delivered: s.Delivered, Failed: s.Failed,
			Dead: s.Dead, Cancelled: s.Cancelled, Skipped: s.Skipped, Late: orEmpty(s.Late),
			Held: orEmpty(s.Held),
		})
	}
	return v
}

// onlyShard reads the parameter shard; 0: it is not there.
func onlyShard(query url.Values) (uint32, error) {
	if !query.Has("shard") {
		return 0, nil
	}
	n, err := wholeParam("shard", query.Get("shard"), 1, mostShards)
	return uint32(n), err
}
