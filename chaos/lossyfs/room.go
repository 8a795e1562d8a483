package lossyfs

import "sync"

// room counts the pages that files take, and says when there are no more.
type room struct {
	mu    sync.Mutex // guards what follows
	used  int64      // pages
	limit int64      // pages; <0: none
}

// take takes n pages if there are as many.
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

// leave leaves that many bytes from now on; <0: any number.
func (r *room) leave(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = -1
	if bytes >= 0 {
		r.limit = r.used + bytes/pageSize
	}
}

// left is how many pages are free and used; false: there is no limit.
func (r *room) left() (free, used int64, limited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.limit-r.used, 0), r.used, r.limit >= 0
}

// empty forgets what is used. A limit stays.
func (r *room) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used = 0
}
