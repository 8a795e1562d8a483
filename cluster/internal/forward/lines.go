package forward

import (
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// lines holds the waiting calls: a line for each namespace, in the order of arrival. The lines take turns, one call at
// a time, so that a call waits for one call of each other namespace, and not for all that came before it.
type lines struct {
	turns  []string // namespaces with a call; the one whose turn it is comes first
	byName map[string][]*pending
}

func newLines() lines { return lines{byName: map[string][]*pending{}} }

func (l *lines) empty() bool { return len(l.turns) == 0 }

func (l *lines) add(k *pending) {
	line := l.byName[k.namespace]
	if len(line) == 0 {
		l.turns = append(l.turns, k.namespace)
	}
	l.byName[k.namespace] = append(line, k)
}

// take removes the call whose turn it is, and returns it. There must be one.
func (l *lines) take() *pending {
	namespace := l.turns[0]
	line := l.byName[namespace]
	k := line[0]
	line[0] = nil
	l.turns = slices.Delete(l.turns, 0, 1)
	if line = line[1:]; len(line) > 0 {
		l.byName[namespace] = line
		l.turns = append(l.turns, namespace)
	} else {
		delete(l.byName, namespace)
	}
	return k
}

// remove removes a call, and reports whether it was there.
func (l *lines) remove(k *pending) bool {
	line := l.byName[k.namespace]
	at := slices.Index(line, k)
	if at < 0 {
		return false
	}
	if line = slices.Delete(line, at, at+1); len(line) > 0 {
		l.byName[k.namespace] = line
		return true
	}
	delete(l.byName, k.namespace)
	l.turns = slices.DeleteFunc(l.turns, func(namespace string) bool { return namespace == k.namespace })
	return true
}

// namespaceOf returns the namespace that a call counts for: that of its first command. It is empty for the cluster's
// own calls.
func namespaceOf(msg *clusterpb.Call) string {
	switch op := msg.Op.(type) {
	case *clusterpb.Call_Commands:
		if cmds := op.Commands.GetCommands(); len(cmds) > 0 {
			return task.CanonicalNamespace(cmds[0].GetNamespace())
		}
	case *clusterpb.Call_Get:
		return task.CanonicalNamespace(op.Get.GetNamespace())
	case *clusterpb.Call_List:
		return task.CanonicalNamespace(op.List.GetQuery().GetNamespace())
	}
	return ""
}
