package slab

// A Counter has one table up to counterOneTable keys and counterTables tables from then on, so that no table takes
// long to grow.
const (
	counterOneTable = 4096
	counterTables   = 256
	counterCells    = 4 // of the smallest table
)

// Counter counts things by 32-bit keys. It takes about 11 bytes for each key whose count is not 0. The zero Counter is
// ready to use.
type Counter struct {
	tables []table // none, one or counterTables
	live   int     // keys whose count is not 0
}

// Add adds n, 1 or -1, to a key's count. It panics if the count would fall below 0 or overflow 32 bits.
func (c *Counter) Add(key uint32, n int) {
	c.makeRoom()
	fragment := scramble(key)
	t := c.tableOf(fragment)
	i := t.find(fragment)
	switch {
	case i < 0 && n > 0:
		t.insert(newCell(fragment, 1))
		c.live++
	case i >= 0 && n > 0 && t.cells[i].handle()+1 != 0:
		t.cells[i]++
	case i >= 0 && n < 0 && t.cells[i].handle() > 1:
		t.cells[i]--
	case i >= 0 && n < 0:
		t.remove(t.cells[i])
		c.live--
	default:
		panic("slab: a count is out of range")
	}
}

// Count returns a key's count.
func (c *Counter) Count(key uint32) uint32 {
	if len(c.tables) == 0 {
		return 0
	}
	fragment := scramble(key)
	t := c.tableOf(fragment)
	if i := t.find(fragment); i >= 0 {
		return t.cells[i].handle()
	}
	return 0
}

// Len returns the number of keys whose count is not 0.
func (c *Counter) Len() int { return c.live }

// tableOf returns the table that a key belongs to. The low bits of the fragment choose the table; the high ones place
// the key in it.
func (c *Counter) tableOf(fragment uint32) *table { return &c.tables[int(fragment)%len(c.tables)] }

func (c *Counter) makeRoom() {
	switch {
	case len(c.tables) == 0:
		c.tables = []table{{start: counterCells}}
	case len(c.tables) == 1 && c.live >= counterOneTable:
		c.split()
	}
}

func (c *Counter) split() {
	old := c.tables[0].cells
	c.tables = make([]table, counterTables)
	for i := range c.tables {
		c.tables[i].start = counterCells + i%counterCells // so that they do not all grow at once
	}
	for _, cell := range old {
		if cell != 0 {
			c.tables[cell.fragment()%counterTables].insert(cell)
		}
	}
}

// scramble spreads keys, neighbours above all, over all 32 bits, and no two keys to the same value (the finalizer of
// MurmurHash3). It has no secret. Keys that a caller chose to lie close cost a longer search in one table of many.
func scramble(key uint32) uint32 {
	key ^= key >> 16
	key *= 0x85ebca6b
	key ^= key >> 13
	key *= 0xc2b2ae35
	return key ^ key>>16
}
