// Package policyfile reads policies from a YAML file. Every error names the line
// and the column of what is wrong, and a file with an error yields nothing.
package policyfile
