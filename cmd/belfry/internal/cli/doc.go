// Package cli holds the parts that all commands of belfry share. It knows no command.
//
//	verbs     Verb and its like complete a command: with the flags of the connection and of the output, a function
//	          from the arguments to an answer, and one from the answer to a table
//	settings  Apply gives flags their values from the environment, from the file of --config and from a context
//	calls     Connection holds the address, the key and the namespace of a command that calls a cluster
//	values    NewSpan, Labels: durations and pairs, in the forms of the HTTP interface; Times: instants, as people
//	          write them
//	asking    Call.Ask asks before a change that cannot be undone
//	usage     UsageError is a mistake of the caller, in plain words and with suggestions
//	help      WrapHelp keeps help texts to the width of a terminal
//	errors    Explain adds a remedy to the error of a command
//
// Beside it stand packages of one idea each:
//
//	contexts  clusters under names
//	instant   the grammar of instants
//	output    tables, JSON and YAML
//	progress  how far long work is
//
// Cobra parses and documents flags. Why not viper for the settings? It would let an unknown key pass, and one variable
// set flags of several commands.
package cli
