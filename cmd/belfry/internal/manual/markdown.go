package manual

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

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
