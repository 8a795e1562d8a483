package raftgroup

import "testing"

func TestContacts(t *testing.T) {
	c := newContacts()
	voters := []string{"a", "b", "c"}
	if _, ok := c.majority("a", voters, 5); ok {
		t.Error("a majority of no voters")
	}
	early, late := c.stamp(), c.stamp()
	c.note("b", contact{stamp: late, term: 5, lastLog: 10})
	c.note("b", contact{stamp: early, term: 5, lastLog: 9}) // arrived later, sent earlier
	if got, ok := c.majority("a", voters, 5); !ok || got.seq != late.seq {
		t.Errorf("%v %v", got, ok)
	}
	if _, ok := c.majority("a", voters, 6); ok {
		t.Error("an answer of another term counts")
	}
	c.note("c", contact{stamp: c.stamp(), term: 6})
	if _, ok := c.majority("a", append(voters, "d", "e"), 5); ok {
		t.Error("two of five")
	}
	if _, ok := c.majority("a", []string{"a"}, 1); !ok {
		t.Error("alone")
	}
}

// forget drops all contacts.
func (c *contacts) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.peers)
}
