package main

import "github.com/belfryhq/belfry/bench/subject"

// peers are the services that Belfry is compared to.
func peers() []subject.Subject { return nil }
