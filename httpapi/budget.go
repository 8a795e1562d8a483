package httpapi

import "sync/atomic"

// budget is an amount that many calls share. Whoever takes gives back.
type budget struct {
	limit int64
	taken atomic.Int64 // 0 <= taken <= limit, but for the moment of a refused take
}

func (b *budget) Take(n int) bool {
	if b.taken.Add(int64(n)) > b.limit {
		b.taken.Add(-int64(n))
		return false
	}
	return true
}

func (b *budget) Give(n int) { b.taken.Add(-int64(n)) }
