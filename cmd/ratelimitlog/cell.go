package main

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nene2-ft/ratelimitlog/interfaces/problem"
)

// maxCell is how many characters of a text that came from elsewhere a table shows: one
// of them must not push all others off the screen.
const maxCell = 40

// cell is a text as a cell of a table: quoted if not all of it can be seen, also if it
// has blanks that could be taken for the end of a column, and cut in the middle.
func cell(text string) string { return cut(visible(text), "…") }

// visible is text so that nothing in it is taken for something else.
func visible(text string) string {
	if strings.HasPrefix(text, " ") || strings.HasSuffix(text, " ") || strings.Contains(text, "  ") {
		return strconv.Quote(text)
	}
	return problem.Printable(text)
}

// cut takes as much out of the middle of a text that is too long as is needed.
func cut(text, mark string) string {
	if utf8.RuneCountInString(text) <= maxCell {
		return text
	}
	left := maxCell - utf8.RuneCountInString(mark)
	letters := []rune(text)
	return string(letters[:(left+1)/2]) + mark + string(letters[len(letters)-left/2:])
}

// pad is text with blanks up to width characters.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}
