package io.github.belfryhq.spring.readme;

record Close(int order) {}
