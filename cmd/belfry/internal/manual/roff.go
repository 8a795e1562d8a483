package manual

import (
	"fmt"
	"strings"
)

// File returns the name of the manual page of a command.
func File(path string) string { return dashed(path) + ".1" }

// Roff returns the manual page. The date may be empty.
func (p *Page) Roff(date string, exits []Exit) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	name := dashed(p.Path)
	line(`.TH "%s" "1" "%s" "" "Belfry"`+"\n.nh\n.ad l", escape(strings.ToUpper(name)), escape(date))
	line(".SH NAME\n%s \\- %s", escape(name), escape(lower(p.Summary)))
	line(".SH SYNOPSIS\n.nf\n%s\n.fi", escape(p.Usage))
	if len(p.Description) > 0 {
		line(".SH DESCRIPTION")
	}
	for i, block := range p.Description {
		switch {
		case block.Raw:
			line(".PP\n.nf\n%s\n.fi", escape(block.Text))
		case i > 0:
			line(".PP")
			fallthrough
		default:
			line("%s", escape(block.Text))
		}
	}
	if len(p.Commands) > 0 {
		line(".SH COMMANDS")
	}
	for _, child := range p.Commands {
		line(".TP\n\\fB%s\\fR(1)\n%s", escape(dashed(child.Path)), escape(child.Summary))
	}
	options(line, "OPTIONS", p.Options)
	options(line, "OPTIONS OF THE CONNECTION", p.Connection)
	if len(p.Environment) > 0 {
		line(".SH ENVIRONMENT")
	}
	for _, v := range p.Environment {
		line(".TP\n\\fB%s\\fR\n%s", escape(v.Name), escape(v.setting()))
	}
	if p.Settings {
		line(".SH FILES\n\\fB\\-\\-config\\fR \\fIfile\\fR names a YAML file whose keys are the options of the command.")
	}
	line(".SH EXIT STATUS")
	for _, e := range p.exits(exits) {
		line(".TP\n%d\n%s", e.Code, escape(e.Meaning))
	}
	if len(p.Examples) > 0 {
		line(".SH EXAMPLES\n.nf\n%s\n.fi", escape(strings.Join(p.Examples, "\n")))
	}
	if len(p.SeeAlso) > 0 {
		names := make([]string, len(p.SeeAlso))
		for i, path := range p.SeeAlso {
			names[i] = `\fB` + escape(dashed(path)) + `\fR(1)`
		}
		line(".SH SEE ALSO\n%s", strings.Join(names, ",\n"))
	}
	return b.String()
}

func options(line func(string, ...any), title string, list []Option) {
	if len(list) == 0 {
		return
	}
	line(".SH %s", title)
	for _, o := range list {
		names := `\fB` + escape("--"+o.Name) + `\fR`
		if o.Letter != "" {
			names = `\fB` + escape("-"+o.Letter) + `\fR, ` + names
		}
		if o.Value != "" {
			names += ` \fI` + escape(o.Value) + `\fR`
		}
		line(".TP\n%s\n%s", names, escape(o.text()))
	}
}

// text returns the usage of an option with its default.
func (o *Option) text() string {
	if o.Default == "" {
		return o.Usage
	}
	return o.Usage + " (default: " + o.Default + ")"
}

// escapes are the characters with a meaning of their own in roff, or with another look there.
var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "~", `\(ti`, "^", `\(ha`, `"`, `\(dq`)

// escape returns text for roff: no character of it is a request or an escape.
func escape(text string) string {
	text = escapes.Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// lower returns a sentence with its first letter in lower case, as in the section NAME.
func lower(sentence string) string {
	if sentence == "" {
		return ""
	}
	return strings.ToLower(sentence[:1]) + sentence[1:]
}
