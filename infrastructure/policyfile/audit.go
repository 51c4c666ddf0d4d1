package policyfile

import (
	"github.com/goccy/go-yaml/ast"

	"github.com/nene2-ft/ratelimitlog/domain"
)

// audit reads what the log has of a policy's hits; of says in errors whose it is.
func (r *reader) audit(node ast.Node, of string) (audit domain.Audit) {
	members := r.members(node, of, "log", "sample", "keep", "max_rows")
	if log := members["log"]; log != nil {
		audit.Log = parse(r, log, of+": ", "log", domain.ParseLogMode)
	}
	if sample := members["sample"]; sample != nil {
		audit.Sample = parse(r, sample, of+": ", "sample", domain.ParseSample)
	}
	if keep := members["keep"]; keep != nil {
		audit.Keep = parse(r, keep, of+": ", "keep", domain.ParseKeep)
	}
	if rows := members["max_rows"]; rows != nil {
		audit.MaxRows = parse(r, rows, of+": ", "max_rows", domain.ParseMaxRows)
	}
	if audit.Sample == 1 {
		audit.Sample = 0 // which is the same, and is what not to say it is
	}
	return audit
}
