package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// bars draws usage as a table with a bar on each line, whose two parts can be told
// apart without colours.
type bars struct {
	allowed, refused string // a cell of each
	width            int    // of a line
	ascii            bool
}

const (
	defaultWidth = 80
	// narrowest is the shortest bar: a line with a long name is longer than the terminal.
	narrowest = 10
)

// newBars draws for the terminal that the environment describes.
func newBars(getenv func(string) string) *bars {
	b := &bars{allowed: "█", refused: "░", width: defaultWidth}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 && n <= 10_000 {
		b.width = n
	}
	locale := ""
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // in the order of POSIX
		if locale = getenv(name); locale != "" {
			break
		}
	}
	if locale = strings.ToLower(locale); !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8") {
		b.allowed, b.refused, b.ascii = "#", "-", true
	}
	return b
}

// print draws usage.
func (b *bars) print(out io.Writer, u *domain.Usage) error {
	names := []string{strings.ToUpper(string(u.By))}
	allowed, refused := []string{"ALLOWED"}, []string{"REFUSED"}
	most := 1.0 // units of a line, as a float because two int64 do not fit in one
	for _, g := range u.Top {
		names = append(names, b.name(u, &g))
		allowed, refused = append(allowed, fmt.Sprint(g.Allowed)), append(refused, fmt.Sprint(g.Refused))
		most = max(most, float64(g.Allowed)+float64(g.Refused))
	}
	first, second, third := widest(names), widest(allowed), widest(refused)
	room := max(b.width-first-second-third-3*2, narrowest)
	var text strings.Builder
	for i := range names {
		bar := b.allowed + " allowed " + b.refused + " refused"
		if i > 0 {
			bar = b.bar(&u.Top[i-1], most, room)
		}
		fmt.Fprintf(&text, "%s  %*s  %*s  %s\n", pad(names[i], first), second, allowed[i], third, refused[i], bar)
	}
	groups := counted(u.Groups, "group", "groups")
	if len(u.Top) < u.Groups {
		groups = fmt.Sprintf("%d of %s", len(u.Top), groups)
	}
	fmt.Fprintf(&text, "%s to %s: %s, %d allowed, %d refused in all\n", u.From.In(u.Zone).Format(time.RFC3339), u.To.In(u.Zone).Format(time.RFC3339), groups, u.Allowed, u.Refused)
	if u.Partial {
		fmt.Fprintln(&text, "The log does not have all hits.")
	}
	if len(u.Shadow) > 0 {
		fmt.Fprintf(&text, "In shadow, so that what it refused may have passed: %s.\n", strings.Join(u.Shadow, ", "))
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// bar is a group's bar. What is not nothing has a cell at least.
func (b *bars) bar(g *domain.UsageGroup, most float64, room int) string {
	cells := func(units int64) int {
		n := int(float64(units) / most * float64(room))
		if units > 0 {
			n = max(n, 1)
		}
		return n
	}
	refused := min(cells(g.Refused), room)
	if g.Allowed > 0 {
		refused = min(refused, room-1)
	}
	return strings.Repeat(b.allowed, min(cells(g.Allowed), room-refused)) + strings.Repeat(b.refused, refused)
}

// layouts are how the start of a group of time is written. Hours and minutes tell the
// offset, because one on the clock may come twice.
var layouts = map[domain.UsageBy]string{
	domain.UsageByMonth: "2006-01", domain.UsageByDay: time.DateOnly,
	domain.UsageByHour: "2006-01-02T15:04Z07:00", domain.UsageByMinute: "2006-01-02T15:04Z07:00",
}

func (b *bars) name(u *domain.Usage, g *domain.UsageGroup) string {
	switch {
	case u.By.IsTime():
		return g.Window.Start.In(u.Zone).Format(layouts[u.By])
	case b.ascii && strings.ContainsFunc(g.Name, func(r rune) bool { return r > '~' }):
		return cut(strconv.QuoteToASCII(g.Name), "...")
	case b.ascii:
		return cut(visible(g.Name), "...")
	}
	return cell(g.Name)
}

// widest is how many characters the longest text has.
func widest(texts []string) (n int) {
	for _, text := range texts {
		n = max(n, utf8.RuneCountInString(text))
	}
	return n
}
