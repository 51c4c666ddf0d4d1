package problem

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// Words are an explanation for people, a sentence each. Text that came from clients is
// quoted if not all of it can be seen.
func Words(e *domain.Explanation) []string {
	w := words{}
	w.hit(e)
	w.limit(e)
	w.spent(e)
	for i := range e.Resets {
		w.say("The window was reset at %s%s (call %d).", moment(e.Resets[i].At), by(&e.Resets[i]), e.Resets[i].ID)
	}
	if e.Partial {
		w.say("The log does not have all hits of this policy.")
	}
	w.now(e)
	return w
}

// Printable is text as it is if all of it can be seen, else quoted, so that it does
// nothing to a terminal.
func Printable(text string) string {
	if quoted := strconv.Quote(text); quoted[1:len(quoted)-1] != text {
		return quoted
	}
	return text
}

type words []string

func (w *words) say(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

// hit says what became of the hit, or what would have become of one.
func (w *words) hit(e *domain.Explanation) {
	key := Printable(e.Key)
	switch {
	case e.Hit == nil && e.Minute:
		w.say("The log has no hit of %s under policy %s within the minute from %s on.", key, e.Policy, moment(e.At))
	case e.Hit == nil:
		w.say("The log has no hit of %s under policy %s within a second of %s.", key, e.Policy, moment(e.At))
	case !e.Hit.Allowed && e.Hit.Shadow:
		w.say("%s would have been refused at %s by policy %s, which was in shadow: %s.", key, moment(e.Hit.At), e.Policy, used(e))
	case !e.Hit.Allowed:
		w.say("%s was refused at %s by policy %s: %s.", key, moment(e.Hit.At), e.Policy, used(e))
	default:
		w.say("%s was allowed at %s by policy %s.", key, moment(e.Hit.At), e.Policy)
	}
	if e.Hit != nil {
		w.call(e.Hit)
	}
	w.refused(e)
	if e.Hit != nil && !e.Hit.Allowed {
		return
	}
	switch {
	case e.TallyFrom == domain.FromNothing:
		w.say("Nor does it say what was used in the window %s: nobody asked, or it was not logged, or what was logged has been removed.", span(e.Window))
	case e.HadRoom():
		w.say("At %s %s: a hit of cost 1 would have passed.", moment(e.AsOf), used(e))
	case e.Shadow:
		w.say("At %s %s: a hit of cost 1 would have passed only because the policy was in shadow.", moment(e.AsOf), used(e))
	default:
		w.say("At %s %s: a hit of cost 1 would have been refused.", moment(e.AsOf), used(e))
	}
}

// refused says what else to ask about: who refused the hit too, or when another was
// refused.
func (w *words) refused(e *domain.Explanation) {
	for _, near := range []struct {
		side string
		call *domain.Call
	}{{"before", e.RefusedBefore}, {"after", e.RefusedAfter}} {
		if near.call != nil {
			at := moment(near.call.At)
			w.say("The nearest refusal %s that was at %s (call %d): ask about it with --at %[2]s, over HTTP with at=%[2]s.", near.side, at, near.call.ID)
		}
	}
	if len(e.RefusedToo) == 0 {
		return
	}
	at, too := "that time", e.RefusedToo
	if e.Hit == nil {
		at = moment(e.Refusal().At)
	}
	if last := len(too) - 1; last > 0 {
		w.say("Policies %s and %s refused at %s too: ask for one with --policy %s, over HTTP with policy=%[4]s.", strings.Join(too[:last], ", "), too[last], at, too[0])
	} else {
		w.say("Policy %s refused at %s too: ask for that one with --policy %[1]s, over HTTP with policy=%[1]s.", too[0], at)
	}
}

// call says where the log has a hit.
func (w *words) call(c *domain.Call) {
	text := fmt.Sprintf("It is call %d of the log", c.ID)
	if c.RequestID != "" {
		text += ", request " + Printable(c.RequestID)
	}
	if c.Path != "" {
		text += ", " + strings.TrimSpace(c.Method+" "+Printable(c.Path))
	}
	if c.Cost != 1 {
		text += fmt.Sprintf(", and asked for %d units", c.Cost)
	}
	if c.Hits > 1 {
		text += fmt.Sprintf(", and stands for %d hits alike", c.Hits)
	}
	*w = append(*w, text+".")
}

// used says what was used of the limit in the window.
func used(e *domain.Explanation) string {
	if e.Limit == 0 {
		return "the limit was 0, which blocks every hit"
	}
	if e.Limit == domain.Unlimited {
		return fmt.Sprintf("%s of the window %s were used, without a limit", units(e.Used()), span(e.Window))
	}
	if e.Carry == 0 {
		return fmt.Sprintf("%d of %s units of the window %s were used", e.Used(), domain.FormatLimit(e.Limit), span(e.Window))
	}
	return fmt.Sprintf("%d of %d units were used: %d in the window %s, and %d that weighed in of the %d used in the window before",
		e.Used()+e.Carry, e.Limit, e.Used(), span(e.Window), e.Carry, e.Previous)
}

// limit says which limit was in force, and since when.
func (w *words) limit(e *domain.Explanation) {
	rule := rule(e.Limit, e.Schedule)
	switch {
	case e.LimitFrom == domain.FromNow && !e.AsOf.Equal(e.NowAt):
		w.say("The log does not say which limit was in force then; now it is %s.", rule)
	case e.LimitOf == domain.LimitOfQuota && e.QuotaSet != nil:
		w.say("The limit was the key's own, %s, set at %s%s (call %d).", rule, moment(e.QuotaSet.At), by(e.QuotaSet), e.QuotaSet.ID)
	case e.LimitOf == domain.LimitOfQuota:
		w.say("The limit was the key's own, %s.", rule)
	default:
		w.say("The limit was the policy's, %s.", rule)
	}
	if set := e.PolicySet; set != nil {
		revision := ""
		if set.RequestID != "" {
			revision = " by revision " + Printable(set.RequestID)
		}
		w.say("The policy was put in force at %s%s%s (call %d).", moment(set.At), revision, by(set), set.ID)
	}
}

// spent says what used the window up.
func (w *words) spent(e *domain.Explanation) {
	if len(e.Spent) == 0 {
		return
	}
	var paths, calls []string
	for _, g := range e.SpentByPath {
		paths = append(paths, fmt.Sprintf("%s %s", units(g.Allowed), Printable(g.Name)))
	}
	if e.SpentPaths > len(e.SpentByPath) {
		paths = append(paths, fmt.Sprintf("and %d more paths", e.SpentPaths-len(e.SpentByPath)))
	}
	if e.SpentOf > 0 {
		w.say("By path the newest %d calls that were allowed used: %s.", e.SpentOf, strings.Join(paths, ", "))
	} else {
		w.say("By path was used: %s.", strings.Join(paths, ", "))
	}
	for _, c := range e.Spent[:min(len(e.Spent), newest)] {
		calls = append(calls, fmt.Sprintf("call %d at %s", c.ID, moment(c.At)))
	}
	w.say("The newest that were allowed: %s.", strings.Join(calls, ", "))
}

// newest is how many calls are told in words.
const newest = 5

// now says what has changed, and when the key passes.
func (w *words) now(e *domain.Explanation) {
	switch {
	case e.Now == nil && e.NowFrom == domain.FromNothing:
		w.say("The log does not say whether the policy is in force now.")
		return
	case e.Now == nil:
		w.say("The policy is in force no more, and refuses nobody.")
		return
	case e.NowFrom == domain.FromSettings:
		w.say("The log does not say what is in force now. By the settings here it is %s.", rule(e.Now.Limit, e.Now.Schedule))
	case e.NowFrom == domain.FromChange:
		w.say("What is in force now is told by the log and the counters alone: since %s it is %s (call %d).", moment(e.NowSet.At), rule(e.NowSet.Limit, e.Now.Schedule), e.NowSet.ID)
	}
	if e.Changed() {
		shadow := ""
		if e.Now.Shadow {
			shadow = ", in shadow"
		}
		w.say("That has changed: now the limit is the %s, %s%s.", map[domain.LimitOf]string{domain.LimitOfPolicy: "policy's", domain.LimitOfQuota: "key's own"}[e.NowOf], rule(e.Now.Limit, e.Now.Schedule), shadow)
	}
	switch {
	case e.RetryAfter == domain.Never:
		if e.Now.Limit == 0 {
			w.say("The limit is 0: no hit passes before it is changed.")
		} else {
			w.say("A hit of cost %d passes never: the limit is %d.", e.Cost, e.Now.Limit)
		}
	case e.RetryAfter > 0:
		at, now := e.PassesAt(), e.NowAt.Truncate(time.Second)
		w.say("A hit of cost %d passes at %s, %s from %s, if nobody else asks.", e.Cost, moment(at), plural(int64(at.Sub(now)/time.Second), "second"), moment(now))
	case e.Now.Refuses:
		w.say("A hit of cost %d passes now, because the policy is in shadow.", e.Cost)
	default:
		w.say("A hit of cost %d passes now.", e.Cost)
	}
}

func rule(limit int64, schedule domain.Schedule) string {
	return domain.FormatLimit(limit) + " per " + schedule.String()
}

func units(n int64) string { return plural(n, "unit") }

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// by says who did something, if that is known.
func by(c *domain.Call) string {
	if c.Actor == "" {
		return ""
	}
	return " by " + Printable(c.Actor)
}

func moment(t time.Time) string { return t.UTC().Format(shortest) }

// span is a window, with the date of its end too if that is another.
func span(w domain.Window) string {
	start, end := w.Start.UTC(), w.End.UTC()
	layout := time.DateTime
	if start.Format(time.DateOnly) == end.Format(time.DateOnly) {
		layout = time.TimeOnly
	}
	return start.Format(time.DateTime) + " to " + end.Format(layout) + " UTC"
}
