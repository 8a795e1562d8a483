package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// name returns a node's name, and its id if the name is not known.
func (s *Snapshot) name(id string) string {
	if n := s.find(id); n != nil && n.Name != "" {
		return n.Name
	}
	return id
}

func (s *Snapshot) find(id string) *Node {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}

// names lists nodes by name, sorted.
func (s *Snapshot) names(ids []string) string {
	var names []string
	for _, id := range ids {
		names = append(names, s.name(id))
	}
	slices.Sort(names)
	return list(names)
}

// list joins words as a sentence does: "a", "a and b", "a, b and c".
func list(words []string) string {
	switch n := len(words); n {
	case 0:
		return "none"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

// groupsNamed names groups: "the control group", "shard 3", "the control group and shards 1, 2 and 3".
func groupsNamed(shards []uint32) string {
	var words, numbers []string
	for _, shard := range shards {
		if shard == 0 {
			words = append(words, "the control group")
		} else {
			numbers = append(numbers, strconv.FormatUint(uint64(shard), 10))
		}
	}
	switch {
	case len(numbers) == 1:
		words = append(words, "shard "+numbers[0])
	case len(numbers) > 12:
		words = append(words, fmt.Sprintf("%d shards", len(numbers)))
	case len(numbers) > 1:
		words = append(words, "shards "+list(numbers))
	}
	return list(words)
}

// sentence makes the first letter of a text a capital one.
func sentence(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	return strings.ToUpper(text[:1]) + text[1:]
}

// command returns a command of a shell: its verb, and arguments of any characters.
func command(verb string, args ...string) string {
	for _, arg := range args {
		if arg == "" || strings.ContainsFunc(arg, isSpecial) {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
		verb += " " + arg
	}
	return verb
}

// isSpecial reports whether a character may have a meaning for a shell.
func isSpecial(r rune) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%"
	return !strings.ContainsRune(plain, r)
}

// verb returns the form of a verb that fits the number of subjects.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// span writes a duration with the precision that people want.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Hour).String(), "0m0s")
	}
	return fmt.Sprintf("%d days", d.Round(24*time.Hour)/(24*time.Hour))
}
