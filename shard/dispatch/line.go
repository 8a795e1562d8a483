package dispatch

import "github.com/belfryhq/belfry/fsm/task"

// lines holds the lanes of a limited queue that have a wish, and some whose wish has lapsed. There is a line for each
// priority of the task that a lane would begin next. A lane whose priority changes also joins the line of the new one.
type lines [task.LastPriority]fifo[*lane]

func newLines() (ls lines) {
	for i := range ls {
		ls[i].set = inFirstLine << i
	}
	return ls
}

// add puts a lane into the line of its priority.
func (ls *lines) add(l *lane) { ls[l.priority()-task.FirstPriority].add(l) }

// take removes and returns the first lane of the best priority, and the number of lanes beside it in the line. It
// returns nil if no lane has a wish.
func (ls *lines) take() (l *lane, beside int) {
	for i := 0; i < len(ls); i++ {
		for ls[i].len() > 0 {
			l := ls[i].take()
			switch now := l.priority() - task.FirstPriority; {
			case l.wish == 0:
				continue
			case now == i:
				return l, ls[i].len()
			default:
				ls[now].add(l)
				i = min(i, now)
			}
		}
	}
	return nil, 0
}

func (ls *lines) len() (n int) {
	for i := range ls {
		n += ls[i].len()
	}
	return n
}

// priority returns the best priority of the lanes in the lines.
func (ls *lines) priority() int {
	for i := range ls {
		if ls[i].len() > 0 {
			return i + task.FirstPriority
		}
	}
	return task.LastPriority
}
