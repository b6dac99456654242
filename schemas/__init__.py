"""What travels: the Avro schemas of reports and results, and the way between bytes and typed values or columns."""
