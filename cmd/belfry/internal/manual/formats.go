package manual

import (
	"cmp"
	"fmt"
	"slices"
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

// Markdown returns the commands below a page as one page. The options of the connection stand there once.
func (p *Page) Markdown(exits []Exit) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Command line\n")
	line("<!-- Made of the commands by `make reference`. Do not edit it here. -->\n")
	line("%s. `belfry COMMAND --help` shows the same, and so do the manual pages.\n", plain(p.Summary))
	line("```sh\n%s\n```\n", strings.Join(p.Examples, "\n"))
	p.links(line)
	line("\n## Exit codes\n\n| code | meaning |\n| --- | --- |")
	for _, e := range exits {
		line("| %d | %s |", e.Code, strings.ReplaceAll(plain(e.Meaning), "|", `\|`))
	}
	line("\n## The connection\n\nCommands that call a cluster share these options and variables.\n")
	caller := slices.MaxFunc(p.All(), func(a, b *Page) int { return cmp.Compare(len(a.Connection), len(b.Connection)) })
	markdownOptions(line, caller.Connection)
	line("")
	for _, v := range caller.Environment {
		line("- `%s`: %s", v.Name, plain(v.setting()))
	}
	line("\nOther commands take each option from a variable, too: `BELFRY_SERVE_DATA` sets `serve --data`. All take " +
		"them from the YAML file that `--config` names, whose keys are the options. The nearest value wins: command " +
		"line, variable, file, default.\n")
	for _, page := range p.All()[1:] {
		page.markdown(line)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (p *Page) markdown(line func(string, ...any)) {
	line("%s %s\n", strings.Repeat("#", 1+strings.Count(p.Path, " ")), p.Path)
	line("%s.\n", plain(p.Summary))
	if len(p.Commands) > 0 {
		p.links(line)
		line("")
	}
	if !p.Settings { // it only holds others
		return
	}
	line("```text\n%s\n```\n", p.Usage)
	for _, block := range p.Description {
		if block.Raw {
			line("```text\n%s\n```\n", block.Text)
		} else {
			line("%s\n", plain(block.Text))
		}
	}
	if len(p.Options) > 0 {
		markdownOptions(line, p.Options)
		line("")
	}
	if len(p.Connection) > 0 {
		line("The options of [the connection](#the-connection) apply.\n")
	}
	line("```sh\n%s\n```\n", strings.Join(p.Examples, "\n"))
}

// links lists the commands below a page.
func (p *Page) links(line func(string, ...any)) {
	for _, child := range p.Commands {
		line("- [`%s`](#%s): %s", child.Path, dashed(child.Path), plain(lower(child.Summary)))
	}
}

func markdownOptions(line func(string, ...any), list []Option) {
	for _, o := range list {
		names := "--" + o.Name
		if o.Letter != "" {
			names = "-" + o.Letter + ", " + names
		}
		if o.Value != "" {
			names += " " + strings.ToUpper(o.Value)
		}
		line("- `%s`: %s", names, plain(o.text()))
	}
}

// dashed returns a command's path with dashes, as in anchors and names of manual pages.
func dashed(path string) string { return strings.ReplaceAll(path, " ", "-") }

// plain returns text in which Markdown sees no markup. Code between backticks stays as it is.
func plain(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`, "[", `\[`, "$", `\$`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}
