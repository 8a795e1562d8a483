package siege

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/procstat"
)

// watch samples the nodes of a cluster until its end.
type watch struct {
	cluster *local.Cluster
	client  *http.Client
	began   time.Time
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex // guards series and spent
	series map[[2]string]*series
	spent  map[string]point // processor seconds of each node at the last sample
}

// tellTimeout bounds a request for a node's metrics.
const tellTimeout = 2 * time.Second

// beginWatch samples every node at once, and then at each interval, until its end.
func beginWatch(cluster *local.Cluster, every time.Duration) *watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &watch{
		cluster: cluster, client: &http.Client{Timeout: tellTimeout}, began: time.Now(), stop: stop,
		series: map[[2]string]*series{}, spent: map[string]point{},
	}
	w.done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			w.look(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return w
}

// end ends the watch. It returns the series, by quantity and then by node, and the length of the watch.
func (w *watch) end() (all []series, lasted time.Duration) {
	lasted = time.Since(w.began)
	w.stop()
	w.done.Wait()
	w.client.CloseIdleConnections()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range quantities() {
		for _, n := range w.cluster.Nodes() {
			if s := w.series[[2]string{q.Name, n.Name}]; s != nil {
				all = append(all, *s)
			}
		}
	}
	return all, lasted
}

func (w *watch) look(ctx context.Context) {
	var nodes sync.WaitGroup
	for _, n := range w.cluster.Nodes() {
		if n.PID != 0 {
			nodes.Go(func() { w.lookAt(ctx, n) })
		}
	}
	nodes.Wait()
}

const mib = 1 << 20

// lookAt samples one node. A value that cannot be read now is a gap in its series, because the node has just ended, is
// paused or is cut off.
func (w *watch) lookAt(ctx context.Context, n local.Node) {
	if u, err := procstat.Of(n.PID); err == nil {
		at := w.add(n.Name, memory, float64(u.Memory)/mib)
		w.add(n.Name, descriptors, float64(u.Descriptors))
		w.add(n.Name, threads, float64(u.Threads))
		w.addProcessor(n.Name, at, u.Processor.Seconds())
	}
	if bytes, err := size(n.Data); err == nil {
		w.add(n.Name, disk, float64(bytes)/mib)
	}
	if metrics, err := procstat.Fetch(ctx, w.client, n.HTTPAddr, n.KeyFile); err == nil {
		w.addMetric(n.Name, goroutines, metrics.Values("go_goroutines"), 1)
		w.addMetric(n.Name, heap, metrics.Values("go_memstats_heap_inuse_bytes"), mib)
	}
}

// addMetric adds the value of a metric, unless the node has none or several.
func (w *watch) addMetric(node, name string, values []float64, unit float64) {
	if len(values) == 1 {
		w.add(node, name, values[0]/unit)
	}
}

// add adds a point and returns its time since the watch began.
func (w *watch) add(node, name string, value float64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]string{name, node}
	s := w.series[key]
	if s == nil {
		known := quantities()
		i := slices.IndexFunc(known, func(q quantity) bool { return q.Name == name })
		s = &series{quantity: known[i], Node: node}
		w.series[key] = s
	}
	at := time.Since(w.began)
	s.Points = append(s.Points, point{at, value})
	return at
}

// addProcessor adds the number of cores that a node has used since the last sample. It adds no point if the processor
// time has shrunk: a new process began at zero.
func (w *watch) addProcessor(node string, at time.Duration, seconds float64) {
	w.mu.Lock()
	last, known := w.spent[node]
	w.spent[node] = point{at, seconds}
	w.mu.Unlock()
	if known && seconds >= last.Value && at > last.At {
		w.add(node, processor, (seconds-last.Value)/(at-last.At).Seconds())
	}
}

// logFile is the name of a node's log. The starter of the node puts it into the data folder.
const logFile = "belfry.log"

// size returns the number of bytes in the files of a data folder, without logFile. Files that vanish meanwhile are
// left out.
func size(folder string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || path == filepath.Join(folder, logFile) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
