package httpapi

import (
	"testing"

	"github.com/gofiber/fiber/v2"
)

func TestTheAcceptHeaderChoosesTheForm(t *testing.T) {
	const json, lines, csv = fiber.MIMEApplicationJSON, mimeLines, mimeCSV
	for accept, want := range map[string]string{
		"": json, "  ": json, ",": json, "*/*": json, "application/*": json, "application/json": json, "text/csv": csv, "text/*": csv, "TEXT/CSV": csv, "application/x-ndjson": lines,
		"text/html, application/xhtml+xml, */*;q=0.8": json, "text/csv, */*": csv, "text/csv;q=0.5, */*;q=0.4": csv, "text/csv;q=0.5, */*;q=0.6": json, "text/csv, application/json": json,
		"application/json;q=0, */*": lines, "application/json;q=0.1, application/x-ndjson;q=0.2": lines, "application/json;q=0, application/*": lines, "text/csv;header=present": csv, "text/csv ; q=1.000": csv,
		"text/csv;q=0": "", "text/html": "", "application/xml, image/*": "", "*": "", "*/json": "", "text/csv;q=2": "", "text/csv;q=-1": "", "text/csv;q=x": "", "text/csv;q=NaN": "", "text/csv;q=": "", "application/jsonx": "", "*/*;q=0": "",
		"text/csv;Q=0.5,application/x-ndjson; q=0.7": lines, ",,text/csv,,": csv,
	} {
		if got := preferred(accept, json, lines, csv); got != want {
			t.Errorf("%q chooses %q, want %q", accept, got, want)
		}
	}
}
