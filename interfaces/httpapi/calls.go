package httpapi

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/nene2-ft/ratelimitlog/application"
	"github.com/nene2-ft/ratelimitlog/domain"
	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// calls shows a page of the audit log, or streams what is asked for as a whole:
// that is for the Accept header to say.
func (s *Server) calls(c *fiber.Ctx, r asked) error {
	set(c, fiber.HeaderCacheControl, "no-store")
	c.Vary(fiber.HeaderAccept)
	accept, _ := request{c}.Header(fiber.HeaderAccept)
	form := preferred(accept, fiber.MIMEApplicationJSON, mimeLines, mimeCSV)
	if form == "" {
		return refuse(fiber.StatusNotAcceptable, fmt.Sprintf("Calls can be had as %s, %s and %s.", fiber.MIMEApplicationJSON, mimeLines, mimeCSV), 0)
	}
	values, err := parameters(c, "key", "policy", "allowed", "from", "to", "path", "request_id", "kind", "order", "limit", "cursor")
	if err != nil {
		return err
	}
	query, err := callQuery(values)
	if err != nil {
		return err
	}
	if form != fiber.MIMEApplicationJSON {
		return s.export(c, r, form, values, query)
	}
	if query.Limit, err = pageLimit(values); err != nil {
		return err
	}
	if err := readCursor(values, &query); err != nil {
		return err
	}
	page, more, err := s.history.Page(c.UserContext(), query)
	if err != nil {
		return unreadLog(err)
	}
	next := ""
	if more {
		next = cursorAfter(query.OldestFirst, page[len(page)-1].ID)
	}
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendCalls(b, page, next) })
	return nil
}

// call shows one call.
func (s *Server) call(c *fiber.Ctx, _ asked) error {
	set(c, fiber.HeaderCacheControl, "no-store")
	if _, err := parameters(c); err != nil {
		return err
	}
	id, ok := parseID(c.Params("id"))
	if !ok {
		return &domain.InvalidError{Field: "id", Reason: "must be a whole number, at least 1"}
	}
	call, err := s.history.Call(c.UserContext(), id)
	if err != nil {
		return unreadLog(err)
	}
	body(c, fiber.MIMEApplicationJSON, func(b []byte) []byte { return problem.AppendCall(b, call) })
	return nil
}

// unreadLog has a log that cannot be read answered as such.
func unreadLog(err error) error {
	if errors.Is(err, domain.ErrUnavailable) {
		return asUnreadLog{err}
	}
	return err
}

// asUnreadLog is an error whose problem is that the log cannot be read.
type asUnreadLog struct{ error }

// callQuery reads what calls a request is about, but for limit and cursor.
func callQuery(values url.Values) (query domain.CallQuery, err error) {
	query = domain.CallQuery{
		Key: values.Get("key"), Policy: values.Get("policy"), Path: values.Get("path"), RequestID: values.Get("request_id"),
	}
	if values.Has("kind") {
		for kind := range strings.SplitSeq(values.Get("kind"), ",") {
			query.Kinds = append(query.Kinds, domain.CallKind(kind)) // whether there is such a kind the history says
		}
	}
	switch values.Get("allowed") {
	case "":
	case "true":
		query.Outcome = domain.OutcomeAllowed
	case "false":
		query.Outcome = domain.OutcomeRefused
	default:
		return query, &domain.InvalidError{Field: "allowed", Reason: "must be true or false"}
	}
	switch values.Get("order") {
	case "", "desc":
	case "asc":
		query.OldestFirst = true
	default:
		return query, &domain.InvalidError{Field: "order", Reason: "must be asc or desc"}
	}
	if query.From, err = timeParameter(values, "from"); err != nil {
		return query, err
	}
	query.To, err = timeParameter(values, "to")
	return query, err
}

// A cursor is the order and the ID of the last call of a page. Clients pass it on as
// it is; only so may it change.

func cursorAfter(oldestFirst bool, id int64) string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt([]byte(orderOf(oldestFirst)), id, 10))
}

func orderOf(oldestFirst bool) string {
	if oldestFirst {
		return "a"
	}
	return "d"
}

// readCursor lets the query go on where the cursor says, if there is one.
func readCursor(values url.Values, query *domain.CallQuery) error {
	if !values.Has("cursor") {
		return nil
	}
	text, err := decodeCursor(values.Get("cursor"))
	number, ordered := strings.CutPrefix(string(text), orderOf(query.OldestFirst))
	id, ok := parseID(number)
	if err != nil || !ordered || !ok {
		return &domain.InvalidError{Field: "cursor", Reason: "must be what next said before, of a page in the same order"}
	}
	if query.OldestFirst {
		query.After = id
	} else {
		query.Before = id
	}
	return nil
}

// decodeCursor decodes a cursor, in the one way that it was encoded.
func decodeCursor(cursor string) ([]byte, error) {
	if at := strings.IndexAny(cursor, "\r\n"); at >= 0 { // the decoder passes over them
		return nil, base64.CorruptInputError(at)
	}
	return base64.RawURLEncoding.Strict().DecodeString(cursor)
}

// parseID reads an ID, in the one way that IDs are written.
func parseID(text string) (int64, bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0 && strconv.FormatInt(id, 10) == text
}

// rowLimit reads how many calls there may be in an answer of any length; 0 is any number.
func rowLimit(values url.Values) (int, error) {
	if !values.Has("limit") {
		return 0, nil
	}
	limit, err := strconv.Atoi(values.Get("limit"))
	if err != nil || limit < 1 {
		return 0, &domain.InvalidError{Field: "limit", Reason: fmt.Sprintf("must be a whole number, at least 1; only pages of JSON have at most %d calls", application.MaxPage)}
	}
	return limit, nil
}
