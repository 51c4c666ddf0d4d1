package domain_test

import (
	"fmt"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func ExampleParseSchedule() {
	schedule, err := domain.ParseSchedule("1m")
	if err != nil {
		fmt.Println(err)
		return
	}
	window := schedule.At(time.Date(2026, 1, 1, 0, 0, 45, 0, time.UTC))
	fmt.Println(schedule)
	fmt.Println(window.Start.Format(time.RFC3339), window.Start.Unix())
	fmt.Println(window.End.Format(time.RFC3339))
	// Output:
	// fixed 1m
	// 2026-01-01T00:00:00Z 1767225600
	// 2026-01-01T00:01:00Z
}
