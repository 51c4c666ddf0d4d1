package ratelimitlog_test

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi"
	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

// witness holds every answer in this package's tests to the description of the API:
// those of http.DefaultTransport, and those that are passed to it.
var witness *openapitest.Witness

func TestMain(m *testing.M) {
	var err error
	if witness, err = openapitest.NewWitness(httpapi.Description); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := openapitest.Main(m, witness)
	closeBrowser()
	os.Exit(code)
}

// clientOf is a client whose answers are held to the description.
func clientOf(transport *http.Transport) *http.Client {
	return &http.Client{Transport: witness.Transport(transport)}
}
