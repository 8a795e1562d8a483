// Package cli holds the parts that all commands of belfry share. It knows no command.
//
//	settings  Apply gives flags their values from the environment and from the file of --config
//	calls     Connection holds the address, the key and the namespace of a command that calls a cluster
//	values    NewSpan, ParseAt, Labels: durations, instants and pairs, in the forms of the HTTP interface
//	usage     UsageError is a mistake of the caller, in plain words and with suggestions
//	help      WrapHelp keeps help texts to the width of a terminal
//	output    Show and ShowEach print a Table for people, or JSON
//	errors    Explain adds a remedy to the error of a command
//
// Cobra parses and documents flags. Why not viper for the settings? It would let an unknown key pass, and one variable
// set flags of several commands.
package cli
