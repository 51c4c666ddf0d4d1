package ratelimitlog

import (
	"testing"

	"github.com/nene2-ft/ratelimitlog/infrastructure/metrics"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

// What the composition adds to the server's own routes is described too.
func TestEveryPageIsDescribed(t *testing.T) {
	spec, err := openapitest.Load(httpapi.Description)
	if err != nil {
		t.Fatal(err)
	}
	for page := range provideHTTPOptions(Config{}, metrics.New("test", nil)).Pages {
		if at, _ := spec.Path(page); !spec.Describes("GET", at) || !spec.Describes("HEAD", at) {
			t.Errorf("%s is not described", page)
		}
	}
}
