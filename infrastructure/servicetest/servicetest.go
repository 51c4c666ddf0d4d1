package servicetest

import (
	"os"
	"testing"
)

// requireServices names the variable that makes a missing server a failure.
const requireServices = "RATELIMITLOG_REQUIRE_SERVICES"

// Missing ends the test, which lacks what the message says.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(requireServices) != "" {
		t.Fatalf(format+"; "+requireServices+" is set", args...)
	}
	t.Skipf(format, args...)
}
