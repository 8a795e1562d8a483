package lossyfs

import "math/rand/v2"

// tornOne is the average number of unsynced pages that got to the disk for each torn one among them.
const tornOne = 8

// lose turns the file into one that a power loss leaves, and forgets the rest. No process uses the file meanwhile.
func (c *content) lose() (lost Stats, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if clean := len(c.dirty) == 0 && c.size == c.durable && c.low == c.size; clean {
		return lost, nil
	}
	file, err := c.use()
	if err != nil {
		return lost, err
	}
	size, cutLost := c.sizeLeft()
	if err := file.Truncate(size); err != nil {
		return lost, err
	}
	chance := c.rand.IntN(5) // out of 4, that a page has got to the disk
	for _, index := range c.unsynced() {
		p := c.dirty[index]
		fate := survived
		switch {
		case index*pageSize >= size:
			fate = dropped
		case cutLost && (index+1)*pageSize > c.low, p.forsaken, c.rand.IntN(4) >= chance:
			fate = dropped
		case c.rand.IntN(tornOne) == 0:
			fate = torn
		}
		if err := restore(file, index, size, p.before, fate, c.rand); err != nil {
			return lost, err
		}
		lost.count(fate)
	}
	return lost, nil
}

// sizeLeft decides the length of the file, and whether an unsynced cut was lost as a whole. A lost cut takes all later
// writes behind the cut with it. A cut that was kept leaves nothing durable behind it.
func (c *content) sizeLeft() (size int64, cutLost bool) {
	if c.low < c.durable {
		if c.rand.IntN(2) == 0 {
			return c.durable, true
		}
		c.forgetFrom(c.low)
		c.durable = c.low
	}
	between := c.durable
	if first, last := pages(c.durable), pages(c.size); last > first {
		between = (first + c.rand.Int64N(last-first)) * pageSize
	}
	return [...]int64{c.durable, between, c.size}[c.rand.IntN(3)], false
}

// forgetFrom cuts the durable content to a size.
func (c *content) forgetFrom(size int64) {
	for index, p := range c.dirty {
		if keep := max(size-index*pageSize, 0); keep < int64(len(p.before)) {
			p.before = p.before[:keep]
		}
	}
}

// fate is the outcome of a power loss for one unsynced page.
type fate int

const (
	survived fate = iota
	torn
	dropped
)

// restore puts the durable content back into a page, or into some of its sectors if the page is torn.
func restore(file backing, index, size int64, before []byte, f fate, r *rand.Rand) error {
	var old [pageSize]byte
	copy(old[:], before)
	for at := int64(0); at < pageSize; at += sectorSize {
		off := index*pageSize + at
		n := min(size-off, sectorSize)
		if n <= 0 || f == survived || f == torn && r.IntN(2) == 0 {
			continue
		}
		if _, err := file.WriteAt(old[at:at+n], off); err != nil {
			return err
		}
	}
	return nil
}
