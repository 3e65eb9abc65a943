package pgoutbox

// Statements are the texts of Claim and Purge, as they are sent.
func (q *Queue) Statements() (claim, purge string) { return q.sql.claim, q.sql.purge }
