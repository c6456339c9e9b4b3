"""Months that are closed: what closes one, what stays as it is from then on, and where later differences are booked."""
