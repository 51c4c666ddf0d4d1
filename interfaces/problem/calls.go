package problem

import (
	"strconv"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// milliseconds is RFC 3339 with exactly three digits of a second's fraction.
const milliseconds = "2006-01-02T15:04:05.000Z07:00"

// AppendCall appends a call as JSON. What has no meaning for calls of its kind is
// left out.
func AppendCall(b []byte, c domain.Call) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), c.ID, 10)
	b = c.At.UTC().AppendFormat(append(b, `,"called_at":"`...), milliseconds)
	b = AppendString(append(b, `","kind":`...), string(c.Kind))
	b = AppendString(append(b, `,"policy":`...), c.Policy)
	b = AppendString(append(b, `,"key":`...), c.Key)
	b = strconv.AppendInt(append(b, `,"cost":`...), c.Cost, 10)
	b = strconv.AppendInt(append(b, `,"hits":`...), c.Hits, 10)
	b = strconv.AppendBool(append(b, `,"allowed":`...), c.Allowed)
	b = appendShadow(b, c.Shadow)
	b = strconv.AppendInt(append(b, `,"count":`...), c.Count, 10)
	b = strconv.AppendInt(append(b, `,"refused":`...), c.Refused, 10)
	if c.Kind.HasLimit() {
		b = AppendUnits(append(b, `,"limit":`...), c.Limit)
	}
	if c.Kind.InWindow() {
		b = append(c.WindowStart.UTC().AppendFormat(append(b, `,"window_start":"`...), time.RFC3339), '"')
	}
	b = appendMember(b, `,"schedule":`, c.Schedule)
	b = appendMember(b, `,"coverage":`, c.Coverage)
	b = AppendString(append(b, `,"method":`...), c.Method)
	b = AppendString(append(b, `,"path":`...), c.Path)
	b = AppendString(append(b, `,"request_id":`...), c.RequestID)
	return append(appendMember(b, `,"actor":`, c.Actor), '}')
}

// appendMember appends a member whose value is a text, unless that is empty.
func appendMember(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return AppendString(append(b, name...), text)
}

// AppendCalls appends a page of calls as JSON, and where the next one begins if
// next is not empty.
func AppendCalls(b []byte, calls []domain.Call, next string) []byte {
	b = appendList(append(b, `{"calls":`...), calls, AppendCall)
	if next != "" {
		b = AppendString(append(b, `,"next":`...), next)
	}
	return append(b, '}')
}

// AppendCallLine appends a call as a line of JSON.
func AppendCallLine(b []byte, c domain.Call) []byte { return append(AppendCall(b, c), '\n') }

// CallCSVHeader is the first row of calls in CSV: the members of the JSON form, in
// its order.
const CallCSVHeader = "id,called_at,kind,policy,key,cost,hits,allowed,shadow,count,refused,limit,window_start,schedule,coverage,method,path,request_id,actor\r\n"

// AppendCallCSV appends a call as a row of CSV (RFC 4180). What the JSON form leaves
// out is an empty cell, and shadow always true or false.
//
// A text that begins with = + - @ or ', after blanks or not, or with a tab or a carriage
// return has a ' put before it, so that no spreadsheet takes what a client sent for a
// formula. So has what follows a ; or a tab or the end of a line in it, where some
// spreadsheets begin a cell. To have the text as it was, take one ' away from each of
// these places where there is one.
func AppendCallCSV(b []byte, c domain.Call) []byte {
	b = strconv.AppendInt(b, c.ID, 10)
	b = c.At.UTC().AppendFormat(append(b, ','), milliseconds)
	b = appendCell(append(b, ','), string(c.Kind))
	b = appendCell(append(b, ','), c.Policy)
	b = appendCell(append(b, ','), c.Key)
	b = strconv.AppendInt(append(b, ','), c.Cost, 10)
	b = strconv.AppendInt(append(b, ','), c.Hits, 10)
	b = strconv.AppendBool(append(b, ','), c.Allowed)
	b = strconv.AppendBool(append(b, ','), c.Shadow)
	b = strconv.AppendInt(append(b, ','), c.Count, 10)
	b = strconv.AppendInt(append(b, ','), c.Refused, 10)
	b = append(b, ',')
	if c.Kind.HasLimit() {
		b = append(b, domain.FormatLimit(c.Limit)...)
	}
	b = append(b, ',')
	if c.Kind.InWindow() {
		b = c.WindowStart.UTC().AppendFormat(b, time.RFC3339)
	}
	for _, text := range [...]string{c.Schedule, c.Coverage, c.Method, c.Path, c.RequestID, c.Actor} {
		b = appendCell(append(b, ','), text)
	}
	return append(b, "\r\n"...)
}

// appendCell appends a text as a cell of CSV, see [AppendCallCSV].
func appendCell(b []byte, text string) []byte {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !strings.ContainsAny(text, "\",\r\n") && strings.TrimSpace(text) == text {
		return appendGuarded(b, text)
	}
	return append(appendGuarded(append(b, '"'), strings.ReplaceAll(text, `"`, `""`)), '"')
}

// appendGuarded appends a text with a ' wherever a spreadsheet could see a formula begin.
func appendGuarded(b []byte, text string) []byte {
	if text != "" && (text[0] == '\t' || text[0] == '\r') {
		b = append(b, '\'')
	}
	for {
		end := strings.IndexAny(text, ";\t\r\n") + 1
		if end == 0 {
			end = len(text)
		}
		if begun := strings.TrimLeft(text[:end], " \u00A0\u3000"); strings.IndexAny(begun, "=+-@'＝＋－＠") == 0 {
			b = append(b, '\'')
		}
		b, text = append(b, text[:end]...), text[end:]
		if text == "" {
			return b
		}
	}
}
