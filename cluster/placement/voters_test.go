package placement

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// nodesOf reads nodes from a text such as "a1 b1 c1-lost": a letter is a zone, and digits only make nodes without one.
func nodesOf(t *testing.T, text string) []Node {
	t.Helper()
	var nodes []Node
	for field := range strings.FieldsSeq(text) {
		id, state, _ := strings.Cut(field, "-")
		n := Node{ID: id, Zone: strings.Trim(id, "0123456789"), Weight: DefaultWeight}
		switch state {
		case "":
		case "absent":
			n.State = Absent
		case "lost":
			n.State = Lost
		case "draining":
			n.State = Draining
		default:
			t.Fatalf("state %q", state)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestVoters(t *testing.T) {
	for _, c := range []struct{ nodes, present, want string }{
		{"1", "", "1"},
		{"1 2", "", "1"},
		{"1 2", "2", "2"},
		{"1 2", "1 2", "1 2"},
		{"1 2 3", "1", "1 2 3"},
		{"1 2 3 4", "1 2 3", "1 2 3"},
		{"1 2 3 4 5", "2 3 4", "1 2 3 4 5"},
		{"1 2 3 4 5 6", "2 3 4 5 6", "2 3 4 5 6"},
		{"1 2 3-absent", "1 2 3", "1 2 3"},
		{"1 2 3-absent 4", "1 2 3", "1 2 3"},
		{"1 2 3-absent 4", "1 2", "1 2 4"},
		{"1 2 3-lost", "1 2 3", "1 2 3"},
		{"1 2-lost 3-lost", "1 2 3", "1"},
		{"1 2 3-lost 4", "1 2 3", "1 2 4"},
		{"1 2 3-draining", "1 2 3", "1 2 3"},
		{"1 2 3 4-lost 5-lost", "1 2 3 4 5", "1 2 3"},
		{"1 2", "1 2 3", "1 2"},
		{"1 2 3-lost 4-draining", "2 3 4", "2"},
		{"a1 a2 a3 b1 c1", "a1 a2 a3", "a1 b1 c1"},
		{"a1 a2 b1 b2 c1", "", "a1 a2 b1 b2 c1"},
		{"a1 a2 a3 b1 b2", "", "a1 a2 a3 b1 b2"},
		{"a1 a2 a3 b1 b2 c1 c2", "a1 b1 c1", "a1 a2 b1 b2 c1"},
		{"a1 b1 c1-lost c2", "a1 b1 c1", "a1 b1 c2"},
		{"a1 b1 c1-lost a2", "a1 b1 c1", "a1 a2 b1"},
	} {
		got, err := Voters(nodesOf(t, c.nodes), strings.Fields(c.present))
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s, voters %s: %v, want %s (%v)", c.nodes, c.present, got, c.want, err)
		}
	}
}

// The voters are three or five where there are three nodes; weights do not count; and a second look changes nothing.
func TestVotersAreFewAndStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t, Active, Active, Absent, Lost, Draining)
		present := rapid.SliceOfNDistinct(
			rapid.SampledFrom(append(idsOf(nodes), "gone")), 0, min(5, len(nodes)+1), rapid.ID).Draw(t, "present")
		voters, err := Voters(nodes, present)
		may := len(able(nodes, Replicas{Nodes: present}))
		if err != nil || len(voters) > 5 || may >= 3 && len(voters) != 3 && len(voters) != 5 || may >= 1 && len(voters) < 1 {
			t.Fatalf("voters %v (%v)", voters, err)
		}
		for i := range nodes {
			nodes[i].Weight = rapid.IntRange(MinWeight, MaxWeight).Draw(t, "weight")
		}
		nodes = rapid.Permutation(nodes).Draw(t, "nodes")
		if again, err := Voters(nodes, voters); err != nil || fmt.Sprint(again) != fmt.Sprint(voters) {
			t.Fatalf("%v became %v (%v)", voters, again, err)
		}
		if same, err := Voters(nodes, present); err != nil || fmt.Sprint(same) != fmt.Sprint(voters) {
			t.Fatalf("of other weights and order %v, not %v (%v)", same, voters, err)
		}
	})
}
