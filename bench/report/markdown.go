package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Markdown writes the tables to w.
func (r *Run) Markdown(w io.Writer) error {
	var b strings.Builder
	r.head(&b)
	var notes []string
	for _, t := range samePromise {
		notes = append(notes, r.table(&b, t, r.samePromise())...)
	}
	r.contests(&b)
	for _, t := range tables {
		notes = append(notes, r.table(&b, t, r.Subjects)...)
	}
	r.goals(&b)
	r.absent(&b)
	if len(notes) > 0 {
		b.WriteString("\n## What failed\n\n")
		for _, note := range unique(notes) {
			fmt.Fprintf(&b, "- %s\n", note)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Run) head(b *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(b, "# Results of the bench\n\nCommit %s, %s. %s, %d cores, %d MB of memory; %s; %s.\n",
		r.Commit, r.Date.UTC().Format("2006-01-02 15:04 MST"), m.CPU, m.Cores, m.MemoryMB, m.OS, m.Go)
	fmt.Fprintf(b, "Data on %s, where writing and syncing 4 KiB takes %v in the middle.\n", m.FileSystem,
		m.Fsync.Round(time.Microsecond))
	fmt.Fprintf(b, `A handler that decodes one task and encodes it again answers %s calls a second, callers included. The
goals were set on a machine of two cores that answers %s, and syncs 4 KiB in %v.
`, number(m.Echo, "/s"), number(goalEcho, "/s"), goalFsync)
	fmt.Fprintf(b, `
Medians of %s rounds, in which the services take turns; in parentheses the lowest and the highest round; behind × the
ratio to %s; then in how many rounds it failed. The load runs on the same machine: "load" is its share of
the processor time that it and the service used in the workload of the first column, with * where it used more than the
service, so that the figure says more about the load than about the service. Raw figures: results.json.

The tables of the same promise have the services alone whose acknowledgement promises as much as that of
%[2]s. Processor time is that of all processes of a service in the measured part.
`, r.rounds(), r.reference())
}

// reference returns the name of the subject that the ratios refer to.
func (r *Run) reference() string {
	if len(r.Subjects) == 0 {
		return ""
	}
	return r.Subjects[0].Name
}

// samePromise returns the subjects with the promise of the reference.
func (r *Run) samePromise() []Subject {
	var same []Subject
	for _, s := range r.Subjects {
		if s.Promise == r.Subjects[0].Promise {
			same = append(same, s)
		}
	}
	return same
}

// table writes a table of some subjects if some workload of it was measured. It returns the reasons of failed rounds.
func (r *Run) table(b *strings.Builder, t table, subjects []Subject) (notes []string) {
	var columns []column
	for _, c := range t.columns {
		if r.kind(c.workload, c.key) != nil {
			columns = append(columns, c)
		}
	}
	var rows strings.Builder
	for _, s := range subjects {
		notes = append(notes, r.row(&rows, s, columns)...)
	}
	if rows.Len() == 0 {
		return nil
	}
	fmt.Fprintf(b, "\n## %s\n\n", t.title)
	if t.picture != "" && r.svg(t) != "" {
		fmt.Fprintf(b, "![%s](%s.svg)\n\n", t.title, t.picture)
	}
	if reason := alone[columns[0].workload]; reason != "" {
		fmt.Fprintf(b, "%s\n\n", reason)
	}
	b.WriteString("| service | processes | replicated | fsync |")
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", r.header(c))
	}
	b.WriteString(" load |\n|---|---|---|---|" + strings.Repeat("--:|", len(columns)+1) + "\n" + rows.String())
	return notes
}

func (r *Run) header(c column) string {
	kind := r.kind(c.workload, c.key)
	header := r.title(c.workload) + ": " + kind.Title
	if kind.Unit != "" && kind.Unit != "/s" {
		header += ", " + kind.Unit
	}
	return header
}

func (r *Run) row(b *strings.Builder, s Subject, columns []column) (notes []string) {
	var cells []string
	present, load := false, ""
	for i, at := range columns {
		c := r.cell(s.Name, at.workload, at.key)
		present = present || c.present
		var reference cell // none for the reference itself
		if s.Name != r.reference() {
			reference = r.cell(r.reference(), at.workload, at.key)
		}
		cells = append(cells, c.text(r.kind(at.workload, at.key).Unit, reference))
		if i == 0 {
			load = loadText(c)
		}
		for _, reason := range c.failed {
			notes = append(notes, fmt.Sprintf("%s, %s, %s", s.Name, at.workload, oneLine(reason)))
		}
	}
	if present {
		replicated := "no"
		if s.Promise.Replicated {
			replicated = "yes"
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s | %s | %s |\n", s.Name, s.Promise.Nodes, replicated, s.Promise.Fsync,
			strings.Join(cells, " | "), load)
	}
	return notes
}

func loadText(c cell) string {
	if c.load == 0 {
		return "–"
	}
	mark := ""
	if c.load > 0.5 {
		mark = "*"
	}
	return fmt.Sprintf("%.0f %%%s", 100*c.load, mark)
}

// oneLine joins a long reason, such as the end of a log, into one line, and cuts it.
func oneLine(reason string) string {
	const longest = 400
	line := []rune(strings.Join(strings.Fields(reason), " "))
	if len(line) > longest {
		return string(line[:longest]) + " …"
	}
	return string(line)
}

func (r *Run) contests(b *strings.Builder) {
	b.WriteString("\n## Against peers\n\n| service | peer | workload | figure | goal | measured | |\n" +
		"|---|---|---|---|--:|--:|---|\n")
	for _, c := range contests {
		kind := r.kind(c.workload, c.key)
		if kind == nil {
			continue
		}
		measured, result := "–", r.contest(c)
		if result.known() {
			measured = ratio(result.median()) + " ×"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s |\n", c.subject, c.peer, r.title(c.workload), kind.Title,
			c.demand("×"), measured, c.verdict(result))
	}
}

// contest returns the ratio of the medians. It is unknown if one of them is.
func (r *Run) contest(c contest) cell {
	ours, theirs := r.cell(c.subject, c.workload, c.key), r.cell(c.peer, c.workload, c.key)
	result := cell{present: ours.present && theirs.present}
	if ours.known() && theirs.median() > 0 {
		result.values = []float64{ours.median() / theirs.median()}
	}
	return result
}

func (r *Run) goals(b *strings.Builder) {
	b.WriteString("\n## Goals\n\n| service | workload | figure | goal | measured | |\n|---|---|---|--:|--:|---|\n")
	for _, g := range goals {
		kind := r.kind(g.workload, g.key)
		if kind == nil {
			continue
		}
		c := r.cell(g.subject, g.workload, g.key)
		measured := "–"
		if c.known() {
			measured = number(c.median(), kind.Unit) + spaced(kind.Unit)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", g.subject, r.title(g.workload), kind.Title,
			g.demand(kind.Unit), measured, g.verdict(c))
	}
}

// absent lists the subjects that are not installed on this machine.
func (r *Run) absent(b *strings.Builder) {
	titled := false
	for _, s := range r.Subjects {
		if s.Missing == "" {
			continue
		}
		if !titled {
			b.WriteString("\n## Not measured\n\n")
			titled = true
		}
		fmt.Fprintf(b, "- %s: %s\n", s.Name, oneLine(s.Missing))
	}
}

// unique drops repeated notes and keeps the order.
func unique(notes []string) (kept []string) {
	seen := map[string]bool{}
	for _, note := range notes {
		if !seen[note] {
			kept = append(kept, note)
		}
		seen[note] = true
	}
	return kept
}
