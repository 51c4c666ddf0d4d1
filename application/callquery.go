package application

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nene2-ft/ratelimitlog/domain"
)

func checkPage(limit int) error {
	if limit < 1 || limit > MaxPage {
		return &domain.InvalidError{Field: "limit", Reason: fmt.Sprintf("is %d, it must be 1 to %d", limit, MaxPage)}
	}
	return nil
}

// checkQuery reports with an *InvalidError which filter of a query makes no sense.
func checkQuery(q *domain.CallQuery) error {
	if q.Key != "" {
		if err := domain.CheckKey(q.Key); err != nil {
			return err
		}
	}
	if q.Policy != "" {
		if err := domain.CheckPolicyName(q.Policy); err != nil {
			return err
		}
	}
	switch q.Outcome {
	case "", domain.OutcomeAllowed, domain.OutcomeRefused:
	default:
		return &domain.InvalidError{Field: "outcome", Reason: fmt.Sprintf("is %q, it must be allowed or refused", q.Outcome)}
	}
	for _, kind := range q.Kinds {
		if known := domain.CallKinds(); !slices.Contains(known, kind) {
			return &domain.InvalidError{Field: "kind", Reason: fmt.Sprintf("is %q, it must be one of %s", kind, kindList(known))}
		}
	}
	if err := checkTimes(q.From, q.To); err != nil {
		return err
	}
	if err := checkText("path", q.Path); err != nil {
		return err
	}
	if err := checkText("request_id", q.RequestID); err != nil {
		return err
	}
	switch {
	case q.After < 0:
		return &domain.InvalidError{Field: "after", Reason: fmt.Sprintf("is %d, it must not be negative", q.After)}
	case q.Before < 0:
		return &domain.InvalidError{Field: "before", Reason: fmt.Sprintf("is %d, it must not be negative", q.Before)}
	}
	return nil
}

func kindList(kinds []domain.CallKind) string {
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	return strings.Join(names, ", ")
}

// checkTimes keeps times that are not zero to what [domain.CheckTime] says.
func checkTimes(from, to time.Time) error {
	for i, t := range []time.Time{from, to} {
		if t.IsZero() {
			continue
		}
		if err := domain.CheckTime([]string{"from", "to"}[i], t); err != nil {
			return err
		}
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return &domain.InvalidError{Field: "to", Reason: "must be after from"}
	}
	return nil
}

// maxTextBytes is as long as a path can be that a server has read.
const maxTextBytes = 16 << 10

func checkText(field, text string) error {
	switch {
	case len(text) > maxTextBytes:
		return &domain.InvalidError{Field: field, Reason: fmt.Sprintf("is %d bytes long, at most %d are allowed", len(text), maxTextBytes)}
	case !utf8.ValidString(text):
		return &domain.InvalidError{Field: field, Reason: "is not valid UTF-8"}
	case strings.Contains(text, "\x00"):
		return &domain.InvalidError{Field: field, Reason: "has the control character U+0000"}
	}
	return nil
}
