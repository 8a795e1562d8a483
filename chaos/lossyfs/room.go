package lossyfs

import "sync"

// room counts the pages that files take, up to a limit.
type room struct {
	mu    sync.Mutex // guards the fields below
	used  int64      // pages
	limit int64      // pages; negative: none
}

// take takes n pages and reports whether there was room for all of them. It takes none otherwise.
func (r *room) take(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limit >= 0 && r.used+n > r.limit {
		return false
	}
	r.used += n
	return true
}

func (r *room) give(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
}

// leave leaves room for that many more bytes from now on. A negative number removes the limit.
func (r *room) leave(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = -1
	if bytes >= 0 {
		r.limit = r.used + bytes/pageSize
	}
}

// left returns the numbers of free and used pages. Without a limit, limited is false and free means nothing.
func (r *room) left() (free, used int64, limited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.limit-r.used, 0), r.used, r.limit >= 0
}

// empty forgets the used pages. The limit stays.
func (r *room) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = 0
}
