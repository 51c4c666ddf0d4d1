package httpapi

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/nene2-ft/ratelimitlog/interfaces/httpapi/openapitest"
)

// witness holds every answer in this package's tests to the description.
var witness *openapitest.Witness

func TestMain(m *testing.M) {
	var err error
	if witness, err = openapitest.NewWitness(Description); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(openapitest.Main(m, witness))
}

// read reads the answer to what was sent.
func read(from *bufio.Reader, sent string) (*http.Response, error) {
	response, err := http.ReadResponse(from, nil)
	if err == nil {
		witness.Watch(openapitest.ReadRequest(sent), response)
	}
	return response, err
}
