package redisapi

// For the tests of package redisapi_test.
var (
	IDOf       = idOf
	Sent       = sent
	SkipAnswer = skipAnswer
)
