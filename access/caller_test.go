package access

import "testing"

func TestNeedsOfLists(t *testing.T) {
	caller := func(g Grant) *Caller { return &Caller{Kind: KindKey, ID: "k", Grants: []Grant{g}} }
	every := caller(Grant{Role: Read, Namespace: "a"})
	orders := caller(Grant{Role: Read, Namespace: "a", Queues: []string{"orders*", "mail"}, IDs: []string{"o-*", "x"}})
	list := func(queue, prefix string) Need {
		return Need{Role: Read, Namespace: "a", Queue: queue, ID: prefix, IDPrefix: true}
	}
	for _, c := range []struct {
		caller *Caller
		need   Need
		allows bool
	}{
		{every, list("", ""), true},
		{every, Need{Role: Read, Namespace: "b"}, false},
		{orders, list("", ""), false},
		{orders, list("orders", ""), false},
		{orders, list("", "o-"), false},
		{orders, list("orders", "o-"), true},
		{orders, list("mail", "o-17"), true},
		{orders, list("orders-eu", "o"), false},
		{orders, list("orders", "x"), false}, // it would show x2, too
		{orders, Need{Role: Read, Namespace: "a", Queue: "mail", ID: "x"}, true},
		{orders, Need{Role: Read, Namespace: "a", Queue: "orders", QueuePrefix: true, AnyID: true}, true},
		{orders, Need{Role: Read, Namespace: "a", Queue: "mail", QueuePrefix: true, AnyID: true}, false},
		{orders, Need{Role: Read, Namespace: "a", Queue: "order", QueuePrefix: true, AnyID: true}, false},
	} {
		if got := c.caller.Allows(c.need); got != c.allows {
			t.Errorf("%+v with %+v: %v", c.need, c.caller.Grants, got)
		}
	}
	if !orders.Has(Read) || orders.Has(Operate) {
		t.Errorf("the roles of %+v", orders.Grants)
	}
}
